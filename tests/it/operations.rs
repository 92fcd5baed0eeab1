//! A gateway under pressure and while stopping: limits hold, well-behaved clients are served, and it
//! goes when it is told to.

mod budget;
mod ending;
mod slow_sockets;
mod version;
