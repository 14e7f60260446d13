//! The SRD protocol as a value: reliable, unordered, multipath datagrams without sockets, clocks or threads
