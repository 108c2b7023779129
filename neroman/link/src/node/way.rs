//! The way to a node, which changes with the configuration.

use std::sync::{Arc, Mutex, PoisonError};

use crate::connect::Connect;

/// The way to a node by its present configuration.
#[derive(Clone)]
pub(super) struct Way(Arc<Mutex<Arc<dyn Connect>>>);

impl Way {
    pub(super) fn new(way: Arc<dyn Connect>) -> Self {
        Self(Arc::new(Mutex::new(way)))
    }

    pub(super) fn now(&self) -> Arc<dyn Connect> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn change(&self, way: Arc<dyn Connect>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = way;
    }
}
