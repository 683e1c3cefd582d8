//! Lines of the doctor.

use serde::Serialize;

/// What was looked for, where, what was found, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub what: String,
    /// Files, folders, library names or variables, in the order of trying.
    pub looked_in: Vec<String>,
    #[serde(flatten)]
    pub result: FindingResult,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "result")]
pub enum FindingResult {
    Ok {
        found: String,
    },
    /// It is there and something about it is not as it should be.
    Warning {
        why: String,
        remedy: String,
    },
    /// It is not there; that is no fault where the machine has no such device.
    Missing {
        why: String,
        remedy: String,
    },
}

impl Finding {
    pub fn ok(what: impl Into<String>, looked_in: Vec<String>, found: impl Into<String>) -> Finding {
        Finding { what: what.into(), looked_in, result: FindingResult::Ok { found: found.into() } }
    }

    pub fn warning(
        what: impl Into<String>,
        looked_in: Vec<String>,
        why: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Finding {
        let result = FindingResult::Warning { why: why.into(), remedy: remedy.into() };
        Finding { what: what.into(), looked_in, result }
    }

    pub fn missing(
        what: impl Into<String>,
        looked_in: Vec<String>,
        why: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Finding {
        let result = FindingResult::Missing { why: why.into(), remedy: remedy.into() };
        Finding { what: what.into(), looked_in, result }
    }
}
