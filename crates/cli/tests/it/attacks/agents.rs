//! Files in a work folder that would steer a coding agent past the gate.
