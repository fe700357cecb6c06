//! Injected faults, and the rules that select the calls they apply to.

use std::path::Path;

use crate::descriptors::Exhausted;
use crate::error::Operation;
use crate::purpose::Purpose;

/// What happens to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The call fails with an I/O error (EIO). A failed write may have written a prefix of its
    /// bytes. A sync that fails with this error or with [`Self::NoSpace`] may have lost unsynced
    /// bytes for good.
    InputOutput,
    /// The call fails because the disk is full (ENOSPC).
    NoSpace,
    /// The call fails because no file descriptor is left (EMFILE or ENFILE). Calls that open
    /// nothing succeed.
    NoDescriptor(Exhausted),
    /// A read or write transfers fewer bytes than requested: at least one byte or, in direct mode,
    /// a whole number of blocks of the disk's alignment. A transfer of one byte, or of one block in
    /// direct mode, is complete. Calls that do not transfer bytes succeed.
    Short,
    /// The power is cut. This call and all later calls fail, and the disk stays as it was just
    /// before this call.
    PowerCut,
}

/// A fault rule: a filter for calls, which of the matching calls fail, and the fault they get.
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
    /// Creates a rule that matches every call and strikes at the first one. The methods below
    /// restrict the calls that match and choose the ones at which it strikes.
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

    /// Makes the fault strike at one call only. `index` counts the calls that match this rule since
    /// the plan was set, from 0.
    #[must_use]
    pub fn at(mut self, index: u64) -> Self {
        self.first = index;
        self.once = true;
        self
    }

    /// Makes the fault strike at the call with this index and at all later calls that match this
    /// rule. `index` counts the matching calls since the plan was set, from 0.
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

/// A list of fault rules. If several rules strike at the same call, the first rule in the list
/// applies.
#[derive(Debug, Clone, Default)]
pub struct FaultPlan {
    rules: Vec<FaultRule>,
}

impl FaultPlan {
    /// Creates a plan without faults.
    pub fn none() -> Self {
        Self::default()
    }

    /// Creates a plan that fails one call: the one with this index among all calls since the plan
    /// was set, counted from 0.
    pub fn at(index: u64, fault: Fault) -> Self {
        Self::none().with(FaultRule::new(fault).at(index))
    }

    /// Creates a plan that fails every call from this index on, counted from 0 since the plan was
    /// set.
    pub fn from(index: u64, fault: Fault) -> Self {
        Self::none().with(FaultRule::new(fault).from(index))
    }

    /// Adds a rule.
    #[must_use]
    pub fn with(mut self, rule: FaultRule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Counts the call in every rule and returns the fault that strikes, if any.
    pub(super) fn strike(
        &mut self,
        operation: Operation,
        path: &Path,
        purpose: Option<Purpose>,
    ) -> Option<Fault> {
        let mut struck = None;
        for rule in &mut self.rules {
            // Evaluate `strikes` first: it counts the call in this rule even if an earlier rule has
            // already struck.
            if rule.strikes(operation, path, purpose) && struck.is_none() {
                struck = Some(rule.fault);
            }
        }
        struck
    }
}
