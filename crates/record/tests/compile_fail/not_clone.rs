//! Neither a permit nor a proof can be copied.

use callgate_gate::Permit;
use callgate_record::{Open, Recorded};

fn copied<T: Clone>() {}

fn main() {
    copied::<Permit>();
    copied::<Recorded<Permit>>();
    copied::<Open>();
}
