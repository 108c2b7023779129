//! The type of answers that come as a stream.

use std::pin::Pin;

use tokio_stream::Stream;
use tonic::Status;

/// A stream of answers.
pub type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;
