//! Compiles the layouts of the kernel's structures against the system's headers.

use cm::ucma::LAYOUTS;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

/// Numbers of `cm::ucma` that are none of a structure.
const VALUES: [(&str, u32); 12] = [
    ("RDMA_USER_CM_ABI_VERSION", cm::ucma::ABI_VERSION),
    ("RDMA_PS_TCP", cm::ucma::port_space::TCP as u32),
    ("RDMA_PS_UDP", cm::ucma::port_space::UDP as u32),
    ("RDMA_PS_IPOIB", cm::ucma::port_space::IPOIB as u32),
    ("RDMA_PS_IB", cm::ucma::port_space::IB as u32),
    ("RDMA_USER_CM_CMD_JOIN_MCAST", 22),
    ("RDMA_USER_CM_CMD_GET_OPTION", 13),
    ("RDMA_USER_CM_QUERY_GID", 2),
    ("RDMA_OPTION_ID_ACK_TIMEOUT", 3),
    ("IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL", 0x2B),
    ("sizeof(struct rdma_ucm_cmd_hdr)", 8),
    ("sizeof(struct rdma_ucm_query_path_resp)", 8),
];

fn assertions() -> String {
    let mut source = String::from("#include <stddef.h>\n#include <rdma/rdma_user_cm.h>\n");
    let mut assert = |claim: &str| writeln!(source, "_Static_assert({claim}, \"{claim}\");");
    for layout in LAYOUTS {
        let name = layout.name;
        assert(&format!("sizeof(struct {name}) == {}", layout.len)).expect("a string");
        for (field, at, len) in layout.fields {
            assert(&format!("offsetof(struct {name}, {field}) == {at}")).expect("a string");
            let size = format!("sizeof(((struct {name} *)0)->{field}) == {len}");
            assert(&size).expect("a string");
        }
    }
    for (name, value) in VALUES {
        assert(&format!("({name}) == {value}")).expect("a string");
    }
    source
}

#[test]
fn the_kernels_headers_agree_with_the_layouts() {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let mut command = Command::new(&compiler);
    command.args(["-std=c11", "-Wall", "-fsyntax-only", "-x", "c", "-"]);
    command.stdin(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut child) = command.spawn() else {
        println!("the C compiler {compiler} is not installed");
        return;
    };
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(assertions().as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "rdma/rdma_user_cm.h disagrees:\n{messages}");
}
