//! The Rust twin of `rocketmq_spark/wire/arrow`: pull response bodies in, Arrow buffers out, in one pass. And of
//! `rocketmq_spark/wire/remoting/fast_path_response`: what was received in, ordinary answers to pulls out.
//!
//! It knows only what is ordinary, and refuses everything else as a whole: damage, inner batches, compressed bodies,
//! text that is no UTF-8, times that microseconds cannot hold, names that repeat. `None` says so everywhere in here.
//! What is refused is decoded by the pure decoder, which is the reference and says what is wrong.

pub mod answers;
pub mod columns;
pub mod decoder;
pub mod growing;
#[cfg(feature = "python")]
mod memory;
pub mod properties;
#[cfg(feature = "python")]
mod python;
pub mod record;
