//! uDAPL on a RoCE device: the test programs of dapl2-utils, which connect by librdmacm (`cma`) or
//! by sockets (`scm`), and check what they write and read.

use std::fs;

use crate::harness::record::{Case, Consumer};
use crate::harness::{Directions, LIMIT, exclusive, has, is_long, rdma_on_the_wire};

const DEVICE: &str = "--device roce0=127.0.0.1,profile=roce";
/// The port at which its servers publish their addresses, which cannot be chosen.
const PORT: u16 = 15828;
/// The library reads this in its constructor.
const PROVIDERS: &str = r#"cma u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 "127.0.0.1 0" ""
scm u2.0 nonthreadsafe default libdaploscm.so.2 dapl.2.0 "roce0 1" ""
"#;
/// The command lines, the text that both ends print on success, and the ways in which they connect.
const TESTS: [(&str, &str, &[&str]); 4] = [
    ("dtest -W -D -b 4096", "DAPL Test Complete. PASSED", &["cma", "scm"]),
    ("dtest -b 65536 -B 20", "DAPL Test Complete. PASSED", &["cma", "scm"]),
    ("dtestx", "immed/atomic test PASSED", &["cma"]),
    // Over sockets it sends nothing on the device.
    ("dtestcm -c 100", "TOTAL:", &["cma"]),
];

fn run((line, passed): (&str, &str), provider: &str) {
    let consumer = Consumer::debian("dapl2-utils");
    let mut case = Case::new(&consumer, &format!("{line} -P {provider}"), "");
    let launcher = case.launcher(&format!("{DEVICE} {}", rdma_on_the_wire()));
    let config = launcher.runtime_dir().join("dat.conf");
    fs::write(&config, PROVIDERS).unwrap();
    let launcher = launcher.with_env(&[("DAT_OVERRIDE", config.to_str().unwrap())]);
    let line = format!("{line} -P {provider}");
    let mut server = launcher.start("server", &format!("{line} -s"));
    server.wait_until_listening(PORT);
    let client = launcher.start("client", &format!("{line} -h 127.0.0.1")).wait(LIMIT);
    for side in [client, server.wait(LIMIT)] {
        case.add(&side);
        assert_eq!(side.code, 0, "{side}");
        assert!(side.stdout.contains(passed) && !side.stdout.contains("FAILED"), "{side}");
        side.assert_moved(Directions::Both);
    }
    case.pass();
}

#[test]
fn programs_of_dapl() {
    let _one = exclusive();
    if !has("dtest") {
        return;
    }
    for (line, passed, providers) in TESTS {
        let providers = if is_long() { providers } else { &providers[..1] };
        providers.iter().for_each(|provider| run((line, passed), provider));
    }
}
