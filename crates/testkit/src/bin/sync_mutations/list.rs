//! The list of mutations of the message log, and of the calls below it. Each mutation is a
//! deliberate error, with which a test must fail.

/// A deliberate error in the code. It is compiled in, and takes effect only if an environment
/// variable selects it.
pub(crate) struct Mutation {
    /// What the log does wrong if the mutation is enabled.
    pub(crate) what: &'static str,
    pub(crate) changes: &'static [Replacement],
    /// The tests of which one must fail.
    pub(crate) tests: Tests,
}

/// A text to replace: the path of its file, relative to the repository, the text, and its
/// replacement. The text must occur exactly once in the file after the replacements of the
/// mutations before it in the list. `{on}` in the replacement denotes a Rust expression that is
/// true if the mutation is enabled.
type Replacement = (&'static str, &'static str, &'static str);

/// The tests of the message log whose names contain a text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tests {
    Usual(&'static str),
    /// Tests with the model checker.
    Modelled(&'static str),
}

impl Tests {
    /// Returns the arguments of `cargo test` for these tests.
    pub(crate) fn arguments(self) -> Vec<&'static str> {
        let flags = "build.rustflags=[\"--cfg\",\"shuttle\"]";
        let (mut arguments, name) = match self {
            Self::Usual(name) => (Vec::new(), name),
            Self::Modelled(name) => {
                (vec!["--config", flags, "--target-dir", "../target/shuttle"], name)
            }
        };
        arguments.extend(["-p", "tailwater-log", "--test", "log", "--", name]);
        arguments
    }
}

const INTERLEAVINGS: Tests = Tests::Modelled("interleavings::");
/// Tests with a disk that delays writes.
const HELD: Tests = Tests::Usual("held::");
const CRASHES: Tests = Tests::Usual("crash::");
const MODEL: Tests = Tests::Usual("model::");
/// Tests of the I/O modes at the simulated storage.
const IO_MODES: Tests = Tests::Usual("io_modes::");
/// Tests of the I/O modes at the kernel. They need a filesystem with direct I/O, and `strace`.
const KERNEL_MODES: Tests = Tests::Usual("kernel_modes::");

const PARTITION: &str = "crates/log/src/partition/mod.rs";
const STEPS: &str = "crates/log/src/partition/steps.rs";
const COMMANDS: &str = "crates/log/src/partition/commands.rs";
const OWNER: &str = "crates/log/src/partition/owner/mod.rs";
const QUEUE: &str = "crates/log/src/partition/owner/queue.rs";
const WRITER: &str = "crates/log/src/segment/writer.rs";
const OPEN_FILES: &str = "crates/log/src/segment/open_files.rs";
const DENSE: &str = "crates/log/src/segment/dense.rs";
const OPEN: &str = "crates/log/src/log/open.rs";
const SYSTEM: &str = "crates/io/src/posix/system.rs";

/// The beginning of the function that queues a partition unless it is queued already.
const SCHEDULE: &str = "fn schedule(&self, mut owner: Guard<'_, Owner>) {";

/// All mutations of the list: of the order of commands, and of the I/O modes.
pub(crate) const MUTATIONS: [Mutation; 25] = [
    Mutation {
        what: "an append overtakes a purge that is queued before it",
        changes: &[(
            QUEUE,
            "Effect::Purge | Effect::Truncate { .. } | Effect::Close | Effect::Delete => true,",
            "Effect::Purge => !{on}, \
             Effect::Truncate { .. } | Effect::Close | Effect::Delete => true,",
        )],
        tests: HELD,
    },
    Mutation {
        what: "an append overtakes a deletion that is queued before it",
        changes: &[(
            QUEUE,
            "match self.effect {",
            "match self.effect { Effect::Delete if {on} => false,",
        )],
        tests: HELD,
    },
    Mutation {
        what: "a truncation overtakes the persist of the batches before it",
        changes: &[
            (
                QUEUE,
                "Effect::Truncate { .. } | Effect::Close => Some(self.next_offset),",
                "Effect::Truncate { .. } => (!{on}).then_some(self.next_offset), \
                 Effect::Close => Some(self.next_offset),",
            ),
            (COMMANDS, "if owner.has_unpersisted() {", "if owner.has_unpersisted() && !{on} {"),
        ],
        tests: MODEL,
    },
    Mutation {
        what: "an acknowledgement overtakes the write",
        changes: &[(OWNER, "Durability::Disk => true,", "Durability::Disk => !{on},")],
        tests: CRASHES,
    },
    Mutation {
        what: "a command overtakes a persist that has taken its group",
        changes: &[(
            PARTITION,
            "if owner.schedule.is_scheduled {",
            "if owner.schedule.is_scheduled && !({on} && !owner.schedule.commands.is_empty()) {",
        )],
        tests: INTERLEAVINGS,
    },
    Mutation {
        what: "a deletion overtakes a persist that has taken its group",
        changes: &[(
            PARTITION,
            SCHEDULE,
            "fn schedule(&self, mut owner: Guard<'_, Owner>) {
            let last = owner.schedule.commands.back();
            if {on} && last.is_some_and(|it| matches!(it.effect, owner::Effect::Delete)) {
                drop(owner);
                return self.me.upgrade().into_iter().for_each(|me| self.env.scheduler.push(me));
            }",
        )],
        tests: Tests::Modelled("interleavings::a_deletion"),
    },
    Mutation {
        what: "a rotation overtakes a persist that has taken its group",
        changes: &[
            (
                PARTITION,
                SCHEDULE,
                "fn schedule(&self, mut owner: Guard<'_, Owner>) {
                let last = owner.schedule.commands.back();
                if {on} && last.is_some_and(|it| matches!(it.effect, owner::Effect::Retain)) {
                    drop(owner);
                    return self.me.upgrade().into_iter().for_each(|me| self.env.scheduler.push(me));
                }",
            ),
            (
                OWNER,
                "if self.has_unpersisted() {\n            return None;",
                "if self.has_unpersisted() && !{on} {\n            return None;",
            ),
        ],
        tests: Tests::Modelled("interleavings::retention"),
    },
    Mutation {
        what: "a deletion overtakes the write in flight",
        changes: &[
            (
                PARTITION,
                SCHEDULE,
                "fn schedule(&self, mut owner: Guard<'_, Owner>) {
                let last = owner.schedule.commands.back();
                if {on} && last.is_some_and(|it| matches!(it.effect, owner::Effect::Delete)) {
                    drop(owner);
                    return self.me.upgrade().into_iter().for_each(|me| self.env.scheduler.push(me));
                }",
            ),
            (
                COMMANDS,
                "let mut files = self.files.lock();",
                "let alone = crate::sync::Mutex::new(Files::default());
                let mut files = match {on} && matches!(command.effect, Effect::Delete) {
                    true => alone.lock(),
                    false => self.files.lock(),
                };",
            ),
        ],
        tests: HELD,
    },
    Mutation {
        what: "a persist that begins a segment overtakes the write in flight",
        changes: &[
            (
                PARTITION,
                SCHEDULE,
                "fn schedule(&self, mut owner: Guard<'_, Owner>) {
                let is_begun = owner.place.segment != owner.persisted.end.segment;
                if {on} && is_begun && owner.schedule.is_scheduled {
                    drop(owner);
                    return self.me.upgrade().into_iter().for_each(|me| self.env.scheduler.push(me));
                }",
            ),
            (
                STEPS,
                "let mut completions = Completions::default();
                let mut files = self.files.lock();",
                "let mut completions = Completions::default();
                let alone = crate::sync::Mutex::new(Files::default());
                let mut files = match {on} {
                    true => self.files.try_lock().unwrap_or_else(|| alone.lock()),
                    false => self.files.lock(),
                };",
            ),
        ],
        tests: HELD,
    },
    Mutation {
        what: "retention begins a segment before the batches of the last one are persisted",
        changes: &[(
            OWNER,
            "pub(super) fn begin_segment(&mut self, env: &Env) -> Option<SegmentStart> {",
            "pub(super) fn begin_segment(&mut self, env: &Env) -> Option<SegmentStart> {
            if {on} && self.place.position > 0 {
                self.close_chunk(env);
                self.place = self.next_segment();
                return Some(self.place.segment);
            }",
        )],
        tests: HELD,
    },
    Mutation {
        what: "a segment is begun although the one before is not sealed",
        changes: &[(STEPS, "writer.seal(end)?;", "if !{on} { writer.seal(end)?; }")],
        tests: CRASHES,
    },
    Mutation {
        what: "a new segment is opened for writes through the page cache",
        changes: &[(
            WRITER,
            "files.storage.create(&path, Create::New, mode, Purpose::LogAppend);",
            "files.storage.create(
                &path,
                Create::New,
                if {on} { tailwater_io::IoMode::Buffered } else { mode },
                Purpose::LogAppend,
            );",
        )],
        tests: IO_MODES,
    },
    Mutation {
        what: "a recovered segment is opened for writes through the page cache",
        changes: &[(
            WRITER,
            ".create(&path, Create::Existing, mode, Purpose::LogAppend)",
            ".create(
                &path,
                Create::Existing,
                if {on} { tailwater_io::IoMode::Buffered } else { mode },
                Purpose::LogAppend,
            )",
        )],
        tests: IO_MODES,
    },
    Mutation {
        what: "a segment is opened again for writes through the page cache",
        changes: &[(
            OPEN_FILES,
            "let (mode, purpose) = (files.append_mode, Purpose::LogAppend);",
            "let mode = if {on} { IoMode::Buffered } else { files.append_mode };
            let purpose = Purpose::LogAppend;",
        )],
        tests: IO_MODES,
    },
    Mutation {
        what: "a segment is rewritten through the page cache",
        changes: &[(
            DENSE,
            "let (mode, purpose) = (files.append_mode, Purpose::LogAppend);",
            "let mode = if {on} { tailwater_io::IoMode::Buffered } else { files.append_mode };
            let purpose = Purpose::LogAppend;",
        )],
        tests: IO_MODES,
    },
    Mutation {
        what: "a segment is read through the page cache",
        changes: &[(
            OPEN_FILES,
            "storage.open(&path, *read_mode, Purpose::LogRead)",
            "storage.open(
                &path,
                if {on} { IoMode::Buffered } else { *read_mode },
                Purpose::LogRead,
            )",
        )],
        tests: IO_MODES,
    },
    Mutation {
        what: "a write to a new segment is not durable",
        changes: &[(
            WRITER,
            "is_named: false,\n            is_durable: files.syncs_appends || durability",
            "is_named: false,\n            is_durable: !{on} && files.syncs_appends || durability",
        )],
        tests: IO_MODES,
    },
    Mutation {
        what: "a write to a recovered segment is not durable",
        changes: &[(
            WRITER,
            "is_named: true,\n            is_durable: files.syncs_appends || durability",
            "is_named: true,\n            is_durable: !{on} && files.syncs_appends || durability",
        )],
        tests: IO_MODES,
    },
    Mutation {
        what: "no write is durable",
        changes: &[(
            WRITER,
            "let is_durable = self.is_durable;",
            "let is_durable = self.is_durable && !{on};",
        )],
        tests: IO_MODES,
    },
    Mutation {
        what: "every write is durable",
        changes: &[(
            WRITER,
            "let end = position + length as u64;",
            "let end = position + length as u64; self.is_durable |= {on};",
        )],
        tests: IO_MODES,
    },
    Mutation {
        what: "the log opens no segments if it may fall back to the page cache",
        changes: &[(
            OPEN,
            "(answer, IoModeChoice::Direct) => {",
            "(answer, requested) if requested == IoModeChoice::Direct || {on} => {",
        )],
        tests: IO_MODES,
    },
    Mutation {
        what: "the log does not fall back to the page cache",
        changes: &[(
            OPEN,
            "probe.filesystem,\n            ));\n            Ok((IoMode::Buffered, ALIGNMENT))",
            "probe.filesystem,\n            ));
            Ok((if {on} { IoMode::Direct } else { IoMode::Buffered }, ALIGNMENT))",
        )],
        tests: IO_MODES,
    },
    Mutation {
        what: "the log writes with direct I/O on a kernel that loses direct writes",
        changes: &[(
            OPEN,
            "options.append_io_mode, Access::Write,",
            "options.append_io_mode, if {on} { Access::Read } else { Access::Write },",
        )],
        tests: IO_MODES,
    },
    Mutation {
        what: "the kernel is not asked for direct I/O",
        changes: &[(
            SYSTEM,
            "rustix::fs::open(path, flags | OFlags::DIRECT, permissions)",
            "rustix::fs::open(
                path,
                if {on} { flags } else { flags | OFlags::DIRECT },
                permissions,
            )",
        )],
        tests: KERNEL_MODES,
    },
    Mutation {
        what: "the kernel is not asked for durable writes",
        changes: &[(SYSTEM, "let flags = if is_durable {", "let flags = if is_durable && !{on} {")],
        tests: KERNEL_MODES,
    },
];
