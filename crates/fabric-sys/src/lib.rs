//! Raw bindings to libfabric
