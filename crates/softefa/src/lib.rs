//! The EFA adapter in software: protection domains, memory regions, queue pairs and completion queues over UDP
