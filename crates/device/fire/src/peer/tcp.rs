//! The same traffic over plain TCP connections.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::json;
use softefa::Config;

use super::series::Series;
use crate::args::PeerArgs;

/// The time after which a blocked call checks whether it should end.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// State that the connections share.
#[derive(Debug, Default)]
struct Shared {
    is_over: AtomicBool,
    sent: AtomicU64,
    taken: AtomicU64,
    wrong: AtomicU64,
    series: Mutex<Series>,
}

pub(super) fn run(args: &PeerArgs, commands: &Receiver<String>) -> Result<()> {
    let addr = Config::from_env()?
        .devices
        .first()
        .map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |spec| spec.addr);
    let listener = TcpListener::bind((addr, 0))?;
    let shared = Arc::new(Shared::default());
    let port = listener.local_addr()?.port();
    let sink = Arc::clone(&shared);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let shared = Arc::clone(&sink);
            std::thread::spawn(move || receive(stream, &shared));
        }
    });
    super::emit(&json!({ "event": "hello", "address": format!("{addr} {port}"), "bytes": 0 }))?;
    let mut to = None;
    let mut threads = Vec::new();
    for command in commands {
        match command.split_whitespace().collect::<Vec<_>>().as_slice() {
            ["peer", addr, port] => to = Some(SocketAddr::new(addr.parse()?, port.parse()?)),
            ["go"] => {
                let Some(to) = to else { bail!("go comes after peer") };
                threads.extend((0..args.depth).map(|_| {
                    let shared = Arc::clone(&shared);
                    std::thread::spawn(move || send(to, &shared))
                }));
            }
            ["stop"] => {
                shared.is_over.store(true, Ordering::Relaxed);
                threads.drain(..).for_each(|thread| drop(thread.join()));
                super::emit(&json!({ "event": "ended", "statuses": {} }))?;
            }
            ["quit"] => return report(&shared),
            _ => bail!("unknown command {command}"),
        }
    }
    bail!("the experiment is gone")
}

fn report(shared: &Shared) -> Result<()> {
    let series = shared.series.lock().unwrap_or_else(PoisonError::into_inner);
    super::emit(&json!({
        "event": "report",
        "begun": shared.sent.load(Ordering::Relaxed),
        "done": shared.taken.load(Ordering::Relaxed),
        "wrongs": shared.wrong.load(Ordering::Relaxed),
        "series": series.json(),
    }))
}

/// Returns byte `at` of every stream.
fn byte(at: u64) -> u8 {
    (at % 251) as u8
}

fn send(to: SocketAddr, shared: &Shared) {
    let Ok(mut stream) = TcpStream::connect(to) else { return };
    let _ = stream.set_write_timeout(Some(POLL_INTERVAL));
    let mut at = 0u64;
    let mut block = vec![0; 8192];
    while !shared.is_over.load(Ordering::Relaxed) {
        (at..).zip(&mut block).for_each(|(at, place)| *place = byte(at));
        match stream.write(&block) {
            Ok(count) => at += count as u64,
            Err(error) if is_timeout(&error) => {}
            Err(_) => break,
        }
    }
    shared.sent.fetch_add(at, Ordering::Relaxed);
}

fn receive(mut stream: TcpStream, shared: &Shared) {
    let mut block = vec![0; 65536];
    let mut at = 0u64;
    while let Ok(count @ 1..) = stream.read(&mut block) {
        let is_right = (at..).zip(&block[..count]).all(|(at, &got)| got == byte(at));
        shared.wrong.fetch_add(u64::from(!is_right), Ordering::Relaxed);
        at += count as u64;
        shared.taken.fetch_add(count as u64, Ordering::Relaxed);
        shared.series.lock().unwrap_or_else(PoisonError::into_inner).add(count as u64);
    }
}

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
