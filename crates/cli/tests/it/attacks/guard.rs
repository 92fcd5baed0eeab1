//! Getting past a gateway that asks another, or misusing the one that answers.
