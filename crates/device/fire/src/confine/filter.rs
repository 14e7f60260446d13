//! System calls that containers refuse.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

/// Numbers (x86-64) of the calls that are refused with EPERM: what the default profiles of
/// container engines refuse, and what stricter ones do that this adapter could want.
const REFUSED: [i64; 15] = [
    101, // ptrace
    165, // mount
    175, // init_module
    246, // kexec_load
    248, // add_key
    272, // unshare
    298, // perf_event_open
    308, // setns
    310, // process_vm_readv
    311, // process_vm_writev
    319, // memfd_create
    321, // bpf
    323, // userfaultfd
    425, // io_uring_setup
    438, // pidfd_getfd
];

/// Refuses these calls to this process and its children from now on.
pub(super) fn apply() -> Result<()> {
    let rules: BTreeMap<i64, _> = REFUSED.map(|call| (call, Vec::new())).into();
    let arch = std::env::consts::ARCH.try_into().map_err(|error| anyhow!("seccomp: {error}"))?;
    // EPERM is 1.
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(1), arch)?;
    let program: BpfProgram = filter.try_into()?;
    seccompiler::apply_filter(&program)?;
    Ok(())
}
