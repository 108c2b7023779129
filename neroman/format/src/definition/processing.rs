//! What is made of a run's outputs when they are home.

use serde::{Deserialize, Serialize};

/// What is made of a run's outputs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OutputProcessing {
    /// One for each file.
    pub outputs: Vec<ProcessedOutput>,
    /// Pictures, each of the values of one of these files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub plots: Vec<OutputPlot>,
}

/// A file of a run and the function that reads it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessedOutput {
    /// Path below the folder of results.
    pub file: String,
    /// What the function is called with.
    pub unit: ProcessedUnit,
    /// The function.
    pub call: PythonCall,
}

/// What a processor is called with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessedUnit {
    /// Each line.
    Line,
    /// The open file, once.
    File,
}

/// A picture and the function that draws it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputPlot {
    /// The name of its file.
    pub name: String,
    /// The file of which it shows values.
    pub file: String,
    /// The function; arguments that are names of values become these values.
    pub call: PythonCall,
}

/// A function of a module and the arguments that were written behind it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PythonCall {
    /// The module, perhaps with dots.
    pub module: String,
    /// The function.
    pub function: String,
    /// Its further arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
}

impl OutputProcessing {
    /// Whether nothing is made.
    pub fn is_empty(&self) -> bool {
        self.outputs.is_empty()
    }
}
