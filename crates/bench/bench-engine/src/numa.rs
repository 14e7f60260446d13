//! NUMA nodes: the processors of each, and the node that an adapter belongs to.

use std::fs;
use std::path::{Path, PathBuf};

use bench_record::failure::Failure;

use crate::affinity::{allowed, parse_cpus};

const NODES: &str = "/sys/devices/system/node";

/// Returns the numbers of this machine's nodes that have processors or memory.
pub(crate) fn nodes() -> Vec<usize> {
    parse_cpus(&fs::read_to_string(Path::new(NODES).join("online")).unwrap_or_default())
}

/// Returns the processors of a node that this process may use.
///
/// # Errors
/// The call fails if there is no such node, or none of its processors is allowed.
pub(crate) fn cpus(node: usize) -> Result<Vec<usize>, Failure> {
    let path = Path::new(NODES).join(format!("node{node}/cpulist"));
    let Ok(text) = fs::read_to_string(path) else {
        return Err(Failure::Usage(match nodes().as_slice() {
            [] => format!("--numa {node}: this kernel knows no NUMA nodes"),
            [only] => format!("--numa {node}: this machine has one node, {only}: leave it out"),
            nodes => format!("--numa {node}: there is no such node; this machine has {nodes:?}"),
        }));
    };
    let own = parse_cpus(&text);
    let allowed = allowed();
    let usable: Vec<usize> = own.iter().copied().filter(|cpu| allowed.contains(cpu)).collect();
    if usable.is_empty() {
        return Err(Failure::Usage(format!(
            "--numa {node}: its processors are {own:?}, this process may use {allowed:?}"
        )));
    }
    Ok(usable)
}

/// Returns the processors for measuring threads: the named ones, which must belong to the node,
/// otherwise all of the node.
///
/// # Errors
/// Fails like [`cpus`], and if a named processor belongs to another node.
pub(crate) fn choose(node: Option<usize>, named: &[usize]) -> Result<Vec<usize>, Failure> {
    let Some(node) = node else { return Ok(named.to_vec()) };
    let own = cpus(node)?;
    if let Some(other) = named.iter().find(|cpu| !own.contains(cpu)) {
        return Err(Failure::Usage(format!(
            "processor {other} is not of NUMA node {node}: {own:?}"
        )));
    }
    Ok(if named.is_empty() { own } else { named.to_vec() })
}

/// Returns the node of an adapter: the RDMA device or network interface that a domain belongs to.
/// `None` if it has no node, or is no hardware.
pub(crate) fn node_of(domain: &str) -> Option<usize> {
    let rdma = crate::counters::device_folder(domain);
    let interface = || Some(PathBuf::from("/sys/class/net").join(domain));
    let folder = rdma.or_else(interface).filter(|_| !domain.is_empty())?;
    // -1 means that there is no node.
    fs::read_to_string(folder.join("device/numa_node")).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::affinity::or_skip;

    const NODE: &str = "NUMA node in /sys/devices/system/node";

    #[test]
    fn a_node_has_the_processors_that_are_allowed() {
        let Some(node) = or_skip(nodes().first().copied(), NODE) else { return };
        let own = cpus(node).expect("the first node");
        let here = allowed();
        assert!(own.iter().all(|cpu| here.contains(cpu)), "{own:?} {here:?}");
        assert_eq!(choose(Some(node), &[]).expect("all"), own);
        assert_eq!(choose(Some(node), &own[..1]).expect("one"), own[..1]);
        assert_eq!(choose(None, &[7, 9]).expect("as named"), [7, 9]);
    }

    #[test]
    fn what_is_not_there_is_refused_with_what_is() {
        let error = cpus(99_999).unwrap_err().to_string();
        assert!(error.contains("--numa 99999") && error.contains("node"), "{error}");
        let Some(node) = or_skip(nodes().first().copied(), NODE) else { return };
        let error = choose(Some(node), &[100_000]).unwrap_err().to_string();
        assert!(error.contains("processor 100000"), "{error}");
    }

    #[test]
    fn no_hardware_is_at_no_node() {
        for domain in ["lo", "", "no-such-device"] {
            assert_eq!(node_of(domain), None, "{domain}");
        }
    }
}
