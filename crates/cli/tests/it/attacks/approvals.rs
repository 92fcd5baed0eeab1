//! Getting a call approved that the approver did not see, did not mean, or already answered.
