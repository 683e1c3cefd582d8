//! Raw arguments -> meaning.
