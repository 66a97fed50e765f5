//! TCP as a peer and an application see it, written from the RFCs.

mod transfer;
