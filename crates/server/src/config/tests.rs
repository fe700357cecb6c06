//! Tests of loading: every source, their precedence, every error, and the file that a running
//! server writes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tailwater_io::posix::PosixStorage;
use tailwater_log::{Durability, IoModeChoice, PartialBlocks};

use super::units::{Bound, format_duration, format_size, parse_bound, parse_duration, parse_size};
use super::{
    Config, ConfigError, ConfigSource, Flags, Root, Tls, current, keys, remove_current, table,
    write_current,
};

/// The keys and values of Iggy's default file, which is not in this repository.
const IGGYS: &str = r#"
[consumer_group]
rebalancing_timeout = "30s"
[data_maintenance.messages]
cleaner_enabled = true
interval = "1 m"
[http]
enabled = true
address = "127.0.0.1:3000"
max_request_size = "2 MB"
web_ui = false
[http.cors]
enabled = true
allowed_methods = ["GET", "POST", "PUT", "DELETE"]
allowed_origins = ["*"]
allow_credentials = false
[http.jwt]
algorithm = "HS256"
valid_issuers = ["iggy.apache.org"]
access_token_expiry = "1 h"
encoding_secret = "TOP-SECRET"
[http.metrics]
enabled = true
endpoint = "/metrics"
[http.tls]
enabled = false
cert_file = "core/certs/iggy_cert.pem"
key_file = "core/certs/iggy_key.pem"
[tcp]
enabled = true
address = "127.0.0.1:8090"
[tcp.tls]
enabled = false
self_signed = true
cert_file = "core/certs/iggy_cert.pem"
key_file = "core/certs/iggy_key.pem"
[quic]
enabled = true
address = "127.0.0.1:8080"
initial_mtu = "1200 B"
[quic.certificate]
self_signed = true
[personal_access_token]
max_tokens_per_user = 100
[personal_access_token.cleaner]
enabled = true
interval = "1 m"
[heartbeat]
enabled = true
interval = "30 s"
[telemetry]
enabled = false
service_name = "iggy"
[telemetry.logs]
transport = "grpc"
[system]
path = "local_data"
[system.runtime]
path = "runtime"
[system.logging]
path = "logs"
level = "info"
file_enabled = true
max_file_size = "500 MB"
max_total_size = "4 GB"
rotation_check_interval = "1 h"
retention = "7 days"
[system.encryption]
enabled = false
key = ""
[system.stream]
path = "streams"
[system.topic]
path = "topics"
[system.partition]
path = "partitions"
validate_checksum = true
[system.segment]
archive_expired = false
[system.recovery]
recreate_missing_state = false
[system.memory_pool]
enabled = true
size = "4 GiB"
bucket_capacity = 8192
[cluster]
enabled = false
name = "iggy-cluster"
[[cluster.nodes]]
name = "iggy-node-1"
ports = { tcp = 8090, quic = 8080 }
[[cluster.nodes]]
name = "iggy-node-2"
[system.sharding]
cpu_allocation = "numa:auto"
pin_cores = true
[websocket]
enabled = true
address = "127.0.0.1:8092"
[metadata]
prepare_queue_depth = 32
[partition]
prepare_queue_depth = 32
evicted_ring_bytes_max = "16 MiB"
[message_bus]
max_batch = 256
max_message_size = "64 MiB"
peer_queue_capacity = 256
reconnect_period = "5 s"
close_peer_timeout = "2 s"
close_grace = "2 s"
handshake_grace = "10 s"
"#;

fn written(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(text.as_bytes()).expect("a file that can be written");
    file
}

fn environment(variables: &[(&str, &str)]) -> BTreeMap<String, String> {
    variables.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

fn settings(settings: &[(&str, &str)]) -> Flags {
    let settings = settings.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned()));
    Flags { settings: settings.collect(), ..Flags::default() }
}

/// Loads the text of a file, without environment and flags.
fn load(text: &str) -> Result<(Config, Vec<String>), ConfigError> {
    let file = written(text);
    let flags = Flags { config: Some(file.path().to_owned()), ..Flags::default() };
    Config::load(&flags, &BTreeMap::new())
}

fn load_variables(variables: &[(&str, &str)]) -> Result<(Config, Vec<String>), ConfigError> {
    Config::load(&Flags::default(), &environment(variables))
}

#[test]
fn iggys_default_file_is_the_default_with_one_warning_for_each_section() {
    let (config, warnings) = load(IGGYS).expect("a valid configuration");
    assert_eq!(config, Config::default());
    let begins: Vec<&str> = warnings
        .iter()
        .map(|warning| warning.split_once(" ha").map_or(warning.as_str(), |(paths, _)| paths))
        .collect();
    assert_eq!(
        begins,
        [
            "quic",
            "websocket",
            "metadata",
            "partition",
            "data_maintenance.messages.interval",
            "http.cors, http.jwt, http.max_request_size, http.web_ui",
            "message_bus.close_peer_timeout, message_bus.max_batch, \
             message_bus.peer_queue_capacity",
            "message_bus.close_grace",
            "message_bus.handshake_grace",
            "message_bus.reconnect_period",
            "personal_access_token.cleaner",
            "system.memory_pool",
            "system.sharding",
            "system.partition, system.stream, system.topic",
            "system.logging.rotation_check_interval",
        ],
        "{warnings:#?}"
    );
    assert!(!warnings.concat().contains("TOP-SECRET"));
}

#[test]
fn flags_override_the_environment_which_overrides_the_file() {
    let file = written("[tcp]\naddress = '127.0.0.1:1'\n[system]\npath = 'file'");
    let variables =
        [("IGGY_TCP_ADDRESS", "127.0.0.1:2"), ("IGGY_HTTP_ADDRESS", "127.0.0.1:3"), ("PATH", "/")];
    let variables = environment(&variables);
    let mut flags = settings(&[("http.address", "127.0.0.1:4")]);
    flags.config = Some(file.path().to_owned());
    let (config, warnings) = Config::load(&flags, &variables).expect("a valid configuration");
    assert_eq!(config.tcp.expect("on").address.port(), 2);
    assert_eq!(config.http.expect("on").address.port(), 4);
    assert_eq!(config.path, PathBuf::from("file"));
    assert_eq!(config.heartbeat_interval, Some(Duration::from_secs(30)));
    assert!(warnings.is_empty(), "{warnings:?}");

    flags.path = Some(PathBuf::from("flag"));
    flags.address = Some("127.0.0.1:5".to_owned());
    let (config, _) = Config::load(&flags, &variables).expect("a valid configuration");
    assert_eq!((config.path, config.tcp.expect("on").address.port()), ("flag".into(), 5));
}

#[test]
fn the_environment_names_the_file_and_an_empty_variable_is_none() {
    let file = written("heartbeat.enabled = false");
    let path = file.path().to_str().expect("a path in UTF-8");
    let variables = [("IGGY_CONFIG_PATH", path), ("IGGY_TCP_ADDRESS", "")];
    let (config, _) = load_variables(&variables).expect("a valid configuration");
    assert_eq!(config.heartbeat_interval, None);
    assert_eq!(config.tcp, Config::default().tcp);
}

#[test]
fn all_kinds_of_values_are_read() {
    let (config, warnings) = load(
        "[system.segment]\nappend_io_mode = 'buffered'\nread_io_mode = 'direct'\n\
         syncs_appends = true\nshared_memory = false\npersisters = 4\n\
         [topic_defaults]\ndurability = 'persisted'\nconsumer_offset_durability = 'persisted'\n\
         message_expiry = '7 days'\nmax_topic_size = '10 GiB'\nsegment_size = 1048576\n\
         partial_blocks = 'carry'\nmessages_required_to_save = 7\n\
         size_of_messages_required_to_save = '64KiB'\nsave_interval = '20ms'\n\
         [tcp]\nenabled = false\n[http]\nenabled = false\n[system.logging]\nformat = 'json'\n\
         retention = 'none'\nmax_file_size = 0\n[message_bus]\nmax_message_size = '1 MB'",
    )
    .expect("a valid configuration");
    assert!(warnings.is_empty(), "{warnings:?}");
    let segment = &config.segment;
    assert_eq!(segment.append_io_mode, IoModeChoice::Buffered);
    assert_eq!(segment.read_io_mode, IoModeChoice::Direct);
    assert!(segment.syncs_appends && !segment.has_shared_memory && segment.persisters == 4);
    let topics = &config.topics;
    assert_eq!(topics.durability, Durability::Disk);
    assert!(topics.are_offsets_durable);
    assert_eq!(topics.message_expiry, Some(Duration::from_secs(7 * 86_400)));
    assert_eq!((topics.topic_bytes_max, topics.segment_bytes), (Some(10 << 30), 1 << 20));
    assert_eq!(topics.partial_blocks, PartialBlocks::Carry);
    assert_eq!(topics.messages_required_to_save, 7);
    assert_eq!(topics.size_of_messages_required_to_save, 64 << 10);
    assert_eq!(topics.save_interval, Duration::from_millis(20));
    assert!(config.tcp.is_none() && config.http.is_none());
    assert!(config.logging.is_json && config.logging.retention.is_none());
    assert_eq!(config.logging.file_bytes_max, None);
    assert_eq!(config.limits.frame_bytes_max, 1_000_000);
}

#[test]
fn durability_has_iggys_names_and_an_alias() {
    for (text, durability) in [
        ("durability = 'memory'", Durability::Memory),
        ("durability = 'replicated'", Durability::Process),
        ("durability = 'disk'", Durability::Disk),
        ("enforce_fsync = true", Durability::Disk),
        ("durability = 'disk'\nenforce_fsync = true", Durability::Disk),
    ] {
        let (config, _) =
            load(&format!("[topic_defaults]\n{text}")).expect("a valid configuration");
        assert_eq!(config.topics.durability, durability, "{text}");
    }
}

#[test]
fn the_source_of_highest_precedence_sets_the_durability() {
    const DURABILITY: &str = "topic_defaults.durability";
    const FSYNC: &str = "topic_defaults.enforce_fsync";
    let durability = |text: &str, flags: &[(&str, &str)]| {
        let file = written(&format!("[topic_defaults]\n{text}"));
        let flags = Flags { config: Some(file.path().to_owned()), ..settings(flags) };
        Config::load(&flags, &BTreeMap::new()).map(|(config, _)| config.topics.durability)
    };
    for (text, flag, expected) in [
        ("enforce_fsync = true", (DURABILITY, "process"), Durability::Process),
        ("enforce_fsync = true", (DURABILITY, "memory"), Durability::Memory),
        ("enforce_fsync = false", (DURABILITY, "disk"), Durability::Disk),
        ("durability = 'process'", (FSYNC, "true"), Durability::Disk),
        ("durability = 'disk'", (FSYNC, "false"), Durability::Process),
        ("durability = 'memory'", (FSYNC, "false"), Durability::Memory),
        ("durability = 'disk'\nenforce_fsync = true", (DURABILITY, "memory"), Durability::Memory),
    ] {
        assert_eq!(durability(text, &[flag]), Ok(expected), "{text}, {flag:?}");
    }
    let file = "durability = 'process'\nenforce_fsync = true";
    let flags = [(DURABILITY, "process"), (FSYNC, "true")];
    for (text, flags) in [(file, &[][..]), ("", &flags[..])] {
        let error = durability(text, flags).expect_err("a contradiction within one source");
        assert_eq!(error.key.as_deref(), Some(FSYNC), "{error}");
    }
}

#[test]
fn unknown_keys_are_warned_about_with_a_suggestion() {
    let (_, warnings) = load(
        "[tcp]\nadress = '127.0.0.1:1'\n[htttp]\nenabled = true\n[system.segmnet]\nx = 1\n\
         [limits]\nconections_max = 3",
    )
    .expect("a valid configuration");
    assert_eq!(warnings.len(), 4, "{warnings:?}");
    for (unknown, nearest) in [
        ("limits.conections_max", "limits.connections_max"),
        ("tcp.adress", "tcp.address"),
        ("htttp", "http"),
        ("system.segmnet", "system.segment"),
    ] {
        let is_it = |warning: &&String| {
            warning.starts_with(&format!("{unknown} (in /"))
                && warning.ends_with(&format!("the nearest key is {nearest}"))
        };
        assert_eq!(warnings.iter().filter(is_it).count(), 1, "{unknown}: {warnings:?}");
    }
    let variables = [("IGGY_TCP_ADDRES", "x"), ("IGGY_PASSWORD", "of the import")];
    let (_, warnings) = load_variables(&variables).expect("a valid configuration");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("nearest one is IGGY_TCP_ADDRESS"), "{warnings:?}");
}

#[test]
fn variables_without_effect_are_warned_of_once_for_each_section() {
    let (_, warnings) = load_variables(&[
        ("IGGY_QUIC_ADDRESS", "127.0.0.1:0"),
        ("IGGY_QUIC_ENABLED", "true"),
        ("IGGY_WEBSOCKET_ADDRESS", "127.0.0.1:0"),
        ("IGGY_WEBSOCKET_ENABLED", "false"),
        ("IGGY_CLUSTER_NODES_0_NAME", "one"),
        ("IGGY_SYSTEM_SHARDING_CPU_ALLOCATION", "4"),
        ("IGGY_TEST_VERBOSE", "1"),
        ("IGGY_CONNECTORS_CONFIG_PATH", "x"),
    ])
    .expect("a valid configuration");
    let begins: Vec<_> = warnings.iter().map(|text| text.split(' ').next()).collect();
    assert_eq!(begins, [Some("quic"), Some("cluster"), Some("system.sharding")], "{warnings:?}");
}

#[test]
fn every_value_that_cannot_be_used_is_refused_with_its_key() {
    for (key, text) in [
        ("system.path", ""),
        ("system.logging.format", "xml"),
        ("system.logging.level", "inof"),
        ("system.logging.max_file_size", "big"),
        ("system.segment.append_io_mode", "mmap"),
        ("system.segment.read_io_mode", "fast"),
        ("system.segment.syncs_appends", "perhaps"),
        ("system.segment.persisters", "0"),
        ("system.memory.tail_bytes_max", "1 KiB"),
        ("topic_defaults.durability", "forever"),
        ("topic_defaults.consumer_offset_durability", "memory"),
        ("topic_defaults.messages_required_to_save", "0"),
        ("topic_defaults.size_of_messages_required_to_save", "2 GiB"),
        ("topic_defaults.save_interval", "0"),
        ("topic_defaults.segment_size", "2 GiB"),
        ("topic_defaults.segment_size", "1048577"),
        ("topic_defaults.message_expiry", "tomorrow"),
        ("topic_defaults.max_topic_size", "1 MiB"),
        ("topic_defaults.partial_blocks", "keep"),
        ("tcp.enabled", "yes"),
        ("tcp.address", "8090"),
        ("http.metrics.endpoint", "metrics"),
        ("http.metrics.endpoint", "/ping"),
        ("heartbeat.interval", "30"),
        ("personal_access_token.max_tokens_per_user", "-1"),
        ("consumer_group.rebalancing_timeout", "none"),
        ("message_bus.max_message_size", "64 Mb"),
        ("message_bus.max_message_size", "8 GiB"),
        ("limits.in_flight_bytes_max", "1 MiB"),
        ("limits.connection_bytes_max", "1 KiB"),
        ("limits.consumers_max", "0"),
        ("limits.connections_max", "0"),
        ("limits.failed_logins_max", "0"),
    ] {
        let error = Config::load(&settings(&[(key, text)]), &BTreeMap::new());
        let error = error.expect_err(&format!("{key} = {text}"));
        assert_eq!(error.key.as_deref(), Some(key), "{error}");
        assert_eq!(error.source, ConfigSource::Flag(format!("--set {key}")));
        assert!(error.to_string().starts_with(&format!("{key} (from --set {key}): ")), "{error}");
    }
}

#[test]
fn the_source_of_a_wrong_value_is_named() {
    let error = load("[tcp]\naddress = 'nowhere'").expect_err("no address");
    assert!(matches!(error.source, ConfigSource::File(_)), "{error}");
    let error = load_variables(&[("IGGY_TCP_ADDRESS", "nowhere")]).expect_err("no address");
    assert_eq!(error.source, ConfigSource::Environment("IGGY_TCP_ADDRESS".to_owned()));
    let error = load("tcp = [1, 2]\n").map(|(_, warnings)| warnings).expect("a warning");
    assert!(error[0].starts_with("tcp (in "), "{error:?}");
    let error = load("[tcp.address]\nhost = 'x'").expect_err("a table");
    assert_eq!(error.key.as_deref(), Some("tcp.address"));
    assert!(error.message.contains("TOML table"), "{error}");
    let error = load("tcp = ").expect_err("no TOML");
    assert!(error.key.is_none() && error.message.starts_with("not TOML"), "{error}");
    let flags = Flags { config: Some(PathBuf::from("/nowhere.toml")), ..Flags::default() };
    let error = Config::load(&flags, &BTreeMap::new()).expect_err("no file");
    assert!(error.to_string().starts_with("/nowhere.toml: cannot read"), "{error}");
}

#[test]
fn relocated_keys_and_variables_are_refused() {
    for relocated in keys::RELOCATED {
        for path in [relocated.path.to_owned(), format!("{}.enabled", relocated.path)] {
            let error = load(&format!("{path} = 1")).expect_err("relocated");
            assert!(error.message.starts_with("no longer exists"), "{error}");
            let variable = keys::variable(&path);
            let error = load_variables(&[(&variable, "1")]).expect_err("relocated");
            assert_eq!(error.source, ConfigSource::Environment(variable));
            let error = Config::load(&settings(&[(&path, "1")]), &BTreeMap::new());
            assert_eq!(error.expect_err("relocated").key.as_deref(), Some(path.as_str()));
        }
        // The key `topic_defaults.OPTION` to which the error message refers must exist.
        if !relocated.to.is_empty() {
            let path = format!("topic_defaults.{}", relocated.to);
            assert!(keys::find(&path).is_some(), "{path}");
        }
    }
    let error = load("system.segment.size = '1 GiB'").expect_err("relocated");
    assert!(error.message.contains("topic_defaults.segment_size"), "{error}");
}

#[test]
fn unsupported_guarantees_are_refused() {
    for (path, _) in keys::REFUSED {
        let error = load(&format!("{path} = true")).expect_err("refused");
        assert_eq!(error.key.as_deref(), Some(*path));
        let error = load_variables(&[(&keys::variable(path), "TRUE")]).expect_err("refused");
        assert!(error.message.starts_with("true, but "), "{error}");
        let (_, warnings) = load(&format!("{path} = false")).expect("a valid configuration");
        assert!(warnings.is_empty(), "{warnings:?}");
    }
}

#[test]
fn an_unknown_flag_is_refused() {
    let error = Config::load(&settings(&[("tcp.adress", "x")]), &BTreeMap::new());
    let error = error.expect_err("no such key");
    assert!(error.message.ends_with("the nearest one is tcp.address"), "{error}");
    let (_, warnings) = Config::load(&settings(&[("quic.enabled", "true")]), &BTreeMap::new())
        .expect("a valid configuration");
    assert!(warnings[0].starts_with("quic has no effect"), "{warnings:?}");
}

#[test]
fn the_root_user_has_both_credentials_or_neither() {
    let [name, password] = ["IGGY_ROOT_USERNAME", "IGGY_ROOT_PASSWORD"];
    assert_eq!(Config::default().root, Root::Random);
    for variable in [name, password] {
        let error = load_variables(&[(variable, "secret")]).expect_err("one of two variables");
        assert_eq!(error.source, ConfigSource::Environment(variable.to_owned()));
        assert!(error.message.contains("set both or neither"), "{error}");
        assert!(!error.to_string().contains("secret"));
    }
    // An empty variable counts as not set, as for all other variables of the server.
    let (config, _) = load_variables(&[(name, ""), (password, "")]).expect("neither");
    assert_eq!(config.root, Root::Random);
    load_variables(&[(name, "admin"), (password, "")]).expect_err("one of two variables");
    let (config, _) = load_variables(&[(name, "admin"), (password, "secret")]).expect("both");
    let given = Root::Given { name: "admin".to_owned(), password: "secret".to_owned() };
    assert_eq!(config.root, given);
    let error = load_variables(&[(name, "admin"), (password, "x")]).expect_err("too short");
    assert!(error.message.contains("3 to 100"), "{error}");

    let flags = Flags { has_default_root_credentials: true, ..Flags::default() };
    let (config, warnings) = Config::load(&flags, &BTreeMap::new()).expect("a valid configuration");
    assert_eq!((config.root, warnings.len()), (Root::Default, 0));
    // If the flag for default root credentials is given, a missing name or password is `iggy`, as
    // in Iggy.
    let (config, warnings) =
        Config::load(&flags, &environment(&[(password, "secret")])).expect("a valid configuration");
    let filled = Root::Given { name: "iggy".to_owned(), password: "secret".to_owned() };
    assert_eq!((config.root, warnings.len()), (filled, 1));
}

#[test]
fn a_non_loopback_http_address_is_warned_about() {
    let flags = settings(&[("tcp.address", "[::]:1"), ("http.address", "[::]:2")]);
    let (_, warnings) = Config::load(&flags, &BTreeMap::new()).expect("a valid configuration");
    let [warning] = warnings.as_slice() else { panic!("{warnings:?}") };
    assert!(warning.starts_with("http.address [::]:2 is not a loopback address"), "{warning}");
}

#[test]
fn certificates_are_self_signed_only_without_a_certificate_file() {
    let certificate = written("");
    let path = certificate.path().to_str().expect("a path in UTF-8");
    let unset = [("tcp.tls.enabled", "true")];
    let (config, warnings) =
        Config::load(&settings(&unset), &BTreeMap::new()).expect("a valid configuration");
    assert_eq!(config.tcp.expect("on").tls, Some(Tls::SelfSigned));
    assert!(warnings.len() == 1 && warnings[0].contains("self-signed"), "{warnings:?}");
    let mut there =
        vec![("tcp.tls.enabled", "true"), ("tcp.tls.cert_file", path), ("tcp.tls.key_file", "k")];
    let (config, warnings) =
        Config::load(&settings(&there), &BTreeMap::new()).expect("a valid configuration");
    assert!(warnings.is_empty(), "{warnings:?}");
    let files = Tls::Files { certificate: path.into(), key: "k".into() };
    assert_eq!(config.tcp.expect("on").tls, Some(files));
    there.pop();
    let error = Config::load(&settings(&there), &BTreeMap::new()).expect_err("no key");
    assert_eq!(error.key.as_deref(), Some("tcp.tls.key_file"));
}

/// Regression test: a misspelt level, such as `inof`, and an empty variable `RUST_LOG` silenced the
/// log.
#[test]
fn levels_of_log_lines_are_checked() {
    for level in ["inof", "warning", "tailwater_log=debug", ","] {
        let error = Config::load(&settings(&[("system.logging.level", level)]), &BTreeMap::new());
        let error = error.expect_err(level);
        assert!(error.message.contains("error, warn, info, debug or trace"), "{error}");
    }
    let level = |variable: &str| {
        let environment = environment(&[("RUST_LOG", variable)]);
        let loaded = Config::load(&settings(&[("system.logging.level", "warn")]), &environment);
        let (config, warnings) = loaded.expect("a valid configuration");
        (config.logging.level, warnings.len())
    };
    assert_eq!(level("debug,tailwater_log=trace"), ("debug,tailwater_log=trace".to_owned(), 0));
    assert_eq!(level(""), ("warn".to_owned(), 0), "an empty variable counts as not set");
    assert_eq!(level("inof"), ("warn".to_owned(), 1));
}

#[test]
fn unknown_values_of_other_variables_are_warned_about() {
    for (value, count) in [("on", 0), ("off", 0), ("", 0), ("of", 1), ("0", 1)] {
        let (_, warnings) =
            load_variables(&[("TAILWATER_IO_URING", value)]).expect("a valid configuration");
        assert_eq!(warnings.len(), count, "{value}: {warnings:?}");
    }
}

#[test]
fn sizes_are_parsed_as_iggy_does() {
    for (text, bytes) in [
        ("0", 0),
        ("123456789", 123_456_789),
        ("4096 B", 4096),
        ("1 GB", 1_000_000_000),
        ("1GiB", 1 << 30),
        ("64 MiB", 64 << 20),
        ("2 kB", 2000),
        ("1.5 KiB", 1536),
        ("10M", 10_000_000),
        (" 7 TiB ", 7 << 40),
        ("18446744073709551615", u64::MAX),
    ] {
        assert_eq!(parse_size(text), Some(bytes), "{text}");
    }
    for text in
        ["", "x", "none", "-1", "1 XB", "64 Mb", "1.", ".5 MB", "1 2 MB", "99999 EB", "iB", "1 iB"]
    {
        assert_eq!(parse_size(text), None, "{text}");
    }
}

#[test]
fn durations_are_parsed_as_iggy_does() {
    for (text, ms) in [
        ("0", 0),
        ("0s", 0),
        ("30s", 30_000),
        ("1 m", 60_000),
        ("7 days", 7 * 86_400_000),
        ("1h 30m", 5_400_000),
        ("1h1m1s", 3_661_000),
        ("250ms", 250),
        ("1 Hour", 3_600_000),
    ] {
        assert_eq!(parse_duration(text), Some(Duration::from_millis(ms)), "{text}");
    }
    for text in ["", "30", "s", "1 hour and 30 minutes", "-1s", "1.5 h", "99999999999999 years"] {
        assert_eq!(parse_duration(text), None, "{text}");
    }
}

#[test]
fn bounds_may_be_unlimited_or_default() {
    for text in ["unlimited", " None ", "disabled", "never_expire"] {
        assert_eq!(parse_bound(text, parse_size), Some(Bound::Unlimited), "{text}");
        assert_eq!(parse_bound(text, parse_duration), Some(Bound::Unlimited), "{text}");
    }
    for text in ["default", "Server_Default"] {
        assert_eq!(parse_bound(text, parse_size), Some(Bound::Default), "{text}");
    }
    assert_eq!(parse_bound("2 KiB", parse_size), Some(Bound::At(2048)));
    assert_eq!(parse_bound("much", parse_size), None);

    let (config, _) = load(
        "[system.logging]\nmax_file_size = 'default'\nretention = 'disabled'\n\
         [topic_defaults]\nmessage_expiry = 'server_default'\nmax_topic_size = '0'",
    )
    .expect("a valid configuration");
    assert_eq!(config.logging.file_bytes_max, Some(500_000_000));
    assert_eq!(config.logging.retention, None);
    assert_eq!((config.topics.message_expiry, config.topics.topic_bytes_max), (None, None));
}

#[test]
fn formatted_sizes_and_durations_parse_back() {
    let mut seeded = tailwater_testkit::seed::rng();
    let seed = seeded.value();
    let random = &mut seeded.rng;
    for _ in 0..10_000 {
        let number = random.u64(..) >> random.u32(..64);
        assert_eq!(parse_size(&format_size(number)), Some(number), "seed {seed}");
        let duration = Duration::from_nanos(number);
        assert_eq!(parse_duration(&format_duration(duration)), Some(duration), "seed {seed}");
    }
}

#[test]
fn no_text_panics_a_parser() {
    let mut seeded = tailwater_testkit::seed::rng();
    println!("seed {}", seeded.value());
    let random = &mut seeded.rng;
    let letters: Vec<char> = "0123456789. \tKkMGiIbBsmhdaysé€".chars().collect();
    for _ in 0..20_000 {
        let length = random.usize(..9);
        let text: String = (0..length).map(|_| letters[random.usize(..letters.len())]).collect();
        let _ = (parse_size(&text), parse_duration(&text));
    }
}

#[test]
fn the_current_configuration_reloads_to_the_same() {
    let (config, _) = load(
        "[system.segment]\nappend_io_mode = 'direct'\n[topic_defaults]\ndurability = 'disk'\n\
         message_expiry = '90 s'\n[heartbeat]\ninterval = '7 s'\n[limits]\nstall_timeout = '9 s'",
    )
    .expect("a valid configuration");
    for config in [Config::default(), config] {
        let address = |port| Some(SocketAddr::from(([127, 0, 0, 1], port)));
        let text = current::render(&config, address(8090), address(3000));
        let (again, warnings) = load(&text).expect("a valid configuration");
        assert_eq!(again, config);
        assert!(warnings.is_empty(), "{warnings:?}");
    }
}

#[test]
fn the_current_configuration_has_every_key() {
    let values = current::values(&Config::default(), None, None);
    let written: BTreeSet<&str> = values.iter().map(|(path, _)| *path).collect();
    let known: BTreeSet<&str> = table::keys().map(|key| key.path).collect();
    let others: Vec<_> = written.difference(&known).copied().collect();
    assert_eq!(known.difference(&written).count(), 0, "{:?}", known.difference(&written));
    assert_eq!(others, ["quic.address", "quic.enabled", "websocket.address", "websocket.enabled"]);
}

#[test]
fn the_current_configuration_contains_ports_and_no_secret() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut config = Config {
        path: directory.path().to_owned(),
        root: Root::Given { name: "admin".to_owned(), password: "TOP-SECRET".to_owned() },
        ..Config::default()
    };
    config.http = None;
    let bound = Some(SocketAddr::from(([127, 0, 0, 1], 12345)));
    let storage = PosixStorage::new();
    write_current(&storage, &config, bound, None).expect("the file is written");
    // The second write replaces the file of the first one.
    write_current(&storage, &config, bound, None).expect("the file is written");
    let runtime = directory.path().join("runtime");
    #[expect(clippy::disallowed_methods, reason = "the file is read as other programs read it")]
    let text = std::fs::read_to_string(runtime.join("current_config.toml")).expect("the file");
    let table: toml::Table = text.parse().expect("TOML");
    let field = |section: &str, name: &str| table[section][name].clone();
    assert_eq!(field("tcp", "address").as_str(), Some("127.0.0.1:12345"));
    for transport in ["http", "quic", "websocket"] {
        assert_eq!(field(transport, "enabled").as_bool(), Some(false));
        let address = field(transport, "address");
        assert_eq!(address.as_str(), Some("127.0.0.1:0"), "{transport}");
    }
    assert!(!text.contains("TOP-SECRET") && !text.contains("admin"), "{text}");
    assert_eq!(std::iter::once(runtime).flat_map(|path| path.read_dir()).flatten().count(), 1);
    assert!(!format!("{config:?}").contains("TOP-SECRET"));
    for _ in 0..2 {
        remove_current(&storage, &config).expect("the file is removed, if it exists");
    }
    let left = directory.path().join("runtime").read_dir().expect("a directory").count();
    assert_eq!(left, 0);
}

#[test]
fn the_manual_has_every_key_with_its_default() {
    const MANUAL: &str = include_str!("../../../../docs/server.md");
    for key in table::keys() {
        let default = match key.default {
            "" => "none".to_owned(),
            default => format!("`{default}`"),
        };
        let row = format!("| `{}` | {default} |", key.path);
        assert!(MANUAL.contains(&row), "docs/server.md has no row that begins with {row}");
    }
    for ignored in keys::IGNORED {
        assert!(MANUAL.contains(&format!("`{}`", ignored.path)), "{}", ignored.path);
    }
    for relocated in keys::RELOCATED {
        assert!(MANUAL.contains(&format!("`{}`", relocated.path)), "{}", relocated.path);
    }
}
