//! Neither a permit nor a proof comes out of nothing.

use callgate_gate::Permit;
use callgate_record::Recorded;

fn from_nothing<T: Default>() {}

fn main() {
    from_nothing::<Permit>();
    from_nothing::<Recorded<Permit>>();
}
