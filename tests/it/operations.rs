//! A gateway under pressure, and on its way out: limits hold, nobody who behaves is lost, and it
//! goes when it is told to.

mod budget;
mod ending;
mod slow_sockets;
mod version;
