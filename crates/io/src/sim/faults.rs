//! Injected faults, and the calls that they apply to.

use std::path::Path;

use crate::error::Operation;
use crate::purpose::Purpose;

/// What happens to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The call fails with an I/O error (EIO). A failed write may have written a part of its bytes.
    /// A failed sync, with this or with [`Self::NoSpace`], may have lost what was not synced.
    InputOutput,
    /// The call fails because the disk is full (ENOSPC).
    NoSpace,
    /// A read or write moves fewer bytes than requested: at least one and, if direct, whole blocks
    /// of the alignment. Calls that cannot be cut short succeed.
    Short,
    /// The power is cut: this call and all after it fail, and the disk stays as it was before this
    /// call.
    PowerCut,
}

/// A fault rule: which calls match it, at which of those it strikes, and with what fault.
#[derive(Debug, Clone)]
pub struct FaultRule {
    fault: Fault,
    operation: Option<Operation>,
    purpose: Option<Purpose>,
    path_part: Option<String>,
    first: u64,
    once: bool,
    seen: u64,
}

impl FaultRule {
    /// Creates a rule that strikes at the first call; the methods below narrow it down.
    pub fn new(fault: Fault) -> Self {
        Self {
            fault,
            operation: None,
            purpose: None,
            path_part: None,
            first: 0,
            once: true,
            seen: 0,
        }
    }

    /// Matches only calls of this operation.
    #[must_use]
    pub fn operation(mut self, operation: Operation) -> Self {
        self.operation = Some(operation);
        self
    }

    /// Matches only calls for this purpose. A call without a purpose ([`super::Call`]) does not
    /// match.
    #[must_use]
    pub fn purpose(mut self, purpose: Purpose) -> Self {
        self.purpose = Some(purpose);
        self
    }

    /// Matches only calls on a path that contains `part`.
    #[must_use]
    pub fn path_containing(mut self, part: &str) -> Self {
        self.path_part = Some(part.to_owned());
        self
    }

    /// Strikes at one call only: number `index`, from 0, of the calls that match since the plan was
    /// set.
    #[must_use]
    pub fn at(mut self, index: u64) -> Self {
        self.first = index;
        self.once = true;
        self
    }

    /// Strikes at call number `index` and every later one, counted as for [`Self::at`].
    #[must_use]
    pub fn from(mut self, index: u64) -> Self {
        self.first = index;
        self.once = false;
        self
    }

    /// Counts the call if it matches, and returns whether the fault strikes.
    fn strikes(&mut self, operation: Operation, path: &Path, purpose: Option<Purpose>) -> bool {
        let counts = self.operation.is_none_or(|wanted| wanted == operation)
            && self.purpose.is_none_or(|wanted| Some(wanted) == purpose)
            && self
                .path_part
                .as_ref()
                .is_none_or(|part| path.to_string_lossy().contains(part.as_str()));
        if !counts {
            return false;
        }
        let index = self.seen;
        self.seen += 1;
        index == self.first || (index > self.first && !self.once)
    }
}

/// All fault rules. If several rules strike at one call, the first applies.
#[derive(Debug, Clone, Default)]
pub struct FaultPlan {
    rules: Vec<FaultRule>,
}

impl FaultPlan {
    /// Creates a plan without faults.
    pub fn none() -> Self {
        Self::default()
    }

    /// Creates a plan with a fault at one call, counted from 0 since the plan was set.
    pub fn at(index: u64, fault: Fault) -> Self {
        Self::none().with(FaultRule::new(fault).at(index))
    }

    /// Creates a plan with a fault at call `index` and every later one, counted from 0 since the
    /// plan was set.
    pub fn from(index: u64, fault: Fault) -> Self {
        Self::none().with(FaultRule::new(fault).from(index))
    }

    /// Adds a rule.
    #[must_use]
    pub fn with(mut self, rule: FaultRule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Returns what happens to this call.
    pub(super) fn strike(
        &mut self,
        operation: Operation,
        path: &Path,
        purpose: Option<Purpose>,
    ) -> Option<Fault> {
        let mut struck = None;
        for rule in &mut self.rules {
            // Every rule counts every call, whether or not another has struck.
            if rule.strikes(operation, path, purpose) && struck.is_none() {
                struck = Some(rule.fault);
            }
        }
        struck
    }
}
