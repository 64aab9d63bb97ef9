//! The one API that sessions and management call: control plane, data plane, queue cells.
