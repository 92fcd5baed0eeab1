//! An amount that is reserved for a call before it is decided.

use std::sync::Arc;

use callgate_record::{Ledger, Reservation};

/// A reservation that is released when it is dropped, unless the call happens.
#[derive(Debug)]
pub(super) struct ReservedAmount {
    ledger: Arc<dyn Ledger>,
    reservation: Option<Reservation>,
}

impl ReservedAmount {
    pub(super) fn new(ledger: Arc<dyn Ledger>, reservation: Reservation) -> Self {
        Self {
            ledger,
            reservation: Some(reservation),
        }
    }

    /// The call happens: the amount is spent.
    pub(super) fn keep(mut self) {
        self.reservation = None;
    }
}

impl Drop for ReservedAmount {
    fn drop(&mut self) {
        let amount = self.reservation.take();
        if let Some(reservation) = amount.filter(|reservation| reservation.amount > 0.0) {
            self.ledger.give_back(reservation);
        }
    }
}
