use std::ffi::{c_char, c_int};

use super::Unused;

pub(crate) const IBV_SYSFS_NAME_MAX: usize = 64;
pub(crate) const IBV_SYSFS_PATH_MAX: usize = 256;

#[repr(C)]
pub(crate) struct ibv_device {
    pub(crate) _dummy1: Unused,
    pub(crate) _dummy2: Unused,
    pub(crate) node_type: c_int,
    pub(crate) transport_type: c_int,
    pub(crate) name: [c_char; IBV_SYSFS_NAME_MAX],
    pub(crate) dev_name: [c_char; IBV_SYSFS_NAME_MAX],
    pub(crate) dev_path: [c_char; IBV_SYSFS_PATH_MAX],
    pub(crate) ibdev_path: [c_char; IBV_SYSFS_PATH_MAX],
}

/// What the providers' private `verbs_device` looks like from outside: libmlx5 and others read the
/// word behind `ibv_device` to see whose device it is, so zeroes must follow.
#[repr(C)]
pub(crate) struct verbs_device {
    pub(crate) device: ibv_device,
    pub(crate) private: [u64; 16],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) union ibv_gid {
    pub(crate) raw: [u8; 16],
    pub(crate) global: ibv_gid_global,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ibv_gid_global {
    pub(crate) subnet_prefix_be: u64,
    pub(crate) interface_id_be: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ibv_gid_entry {
    pub(crate) gid: ibv_gid,
    pub(crate) gid_index: u32,
    pub(crate) port_num: u32,
    pub(crate) gid_type: u32,
    pub(crate) ndev_ifindex: u32,
}
