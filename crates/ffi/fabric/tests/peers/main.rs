//! Everything an endpoint does, between two processes, with the data checked on the side that got
//! it. `FABRIC_TEST_PROVIDER` chooses the provider, `tcp` without it; `softefa-cli`'s consumer
//! tests run this program with `efa`.

mod atomics;
mod harness;
mod messages;
mod rma;
