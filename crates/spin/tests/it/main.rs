//! Looking sockets among each other, over real connections.

mod sockets;
