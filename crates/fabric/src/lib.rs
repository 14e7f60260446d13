//! Safe libfabric: info, domain, endpoint, address vector, completion queue, messages
