//! A device cannot seal if the operating system has no random numbers.

use crate::common::sealing::keyed;
use softefa::{Config, Device, DeviceSpec};

/// Makes `getrandom` fail for this thread from now on.
fn take_random_numbers_away() {
    const LOAD: u16 = 0x20;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    let [load, compare, refuse, allow] = [
        (LOAD, 0, 0, 0),
        (JUMP_IF_EQUAL, 0, 1, libc::SYS_getrandom as u32),
        (RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
        (RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
    .map(|(code, jt, jf, k)| libc::sock_filter { code, jt, jf, k });
    let mut filter = [load, compare, refuse, allow];
    let program = libc::sock_fprog { len: 4, filter: filter.as_mut_ptr() };
    // SAFETY: plain values, and a program that lives through the call, which copies it.
    let results = unsafe {
        [
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program),
        ]
    };
    assert_eq!(results, [0, 0], "{}", std::io::Error::last_os_error());
}

#[test]
fn a_key_needs_random_numbers() {
    let spec = "rdmap0s6=127.0.0.1".parse::<DeviceSpec>().unwrap();
    let open = |config: &Config| Device::open(&spec, config).map(|_| ());
    let sealed = keyed(1, "");
    assert!(open(&sealed).is_ok());
    take_random_numbers_away();
    let error = open(&sealed).expect_err("it must not guess").to_string();
    assert!(error.contains("rdmap0s6") && error.contains("random numbers"), "{error}");
    assert!(open(&Config::default()).is_ok(), "nothing is secret without a key");
}
