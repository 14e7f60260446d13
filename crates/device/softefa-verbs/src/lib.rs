//! The libibverbs and efadv C ABI of Soft-EFA, as a preloadable library.
//!
//! A program that was linked to `libibverbs` and `libefa` finds these functions first when this
//! library is in `LD_PRELOAD`, and the adapter of the `softefa` crate behind them. Two thirds of
//! the verbs API are inline functions of the C headers: for those the layouts of `verbs-abi` and
//! the tables in `ops` *are* the interface.
//!
//! Rules of this crate:
//! * an exported function checks for null, casts (`handle`), calls `softefa` and turns the error
//!   into an errno (`errno`); nothing else;
//! * no panic leaves it (`panic`), and a thread inside is not cancelled and not let in again
//!   (`inside`);
//! * it owns no global that needs a destructor: programs call it from their own destructors;
//! * a process that was forked off never touches the parent's objects (`fork`).

mod advise;
mod ah;
mod attr;
mod channel;
mod context;
mod cq;
mod cq_ex;
mod device;
mod devnode;
mod efadv;
mod efadv_query;
mod errno;
mod event;
mod fork;
mod handle;
mod inside;
mod marshall;
mod mcast;
mod modify;
mod mr;
mod mw;
mod next;
mod ops;
mod panic;
mod paths;
mod pd;
mod post;
mod qp;
mod qp_init;
mod query;
mod rate;
mod rdmacm;
mod resize;
mod session;
mod sigaction;
mod sleeper;
mod srq;
mod strings;
mod sysfs;
mod td;
mod unsupported;
mod wc;
mod wr;
mod xrcd;

use verbs_abi as sys;
