//! Commands about the server itself: its clients, its statistics, the cluster of which it is the
//! only node, and diagnostics.

use std::io::{Cursor, Write};

use iggy_binary_protocol::requests::system::{GetClientRequest, GetSnapshotRequest};
use iggy_binary_protocol::responses::clients::{
    ClientDetailsResponse, ClientResponse, ConsumerGroupInfoResponse, GetClientsResponse,
};
use iggy_binary_protocol::responses::system::get_cluster_metadata::{
    ClusterMetadataResponse, ClusterNodeResponse,
};
use iggy_binary_protocol::responses::system::get_stats::StatsResponse;
use iggy_binary_protocol::{IGGY_PROTOCOL_VERSION, WireDecode, WireEncode};
use sysinfo::{Disks, ProcessRefreshKind, ProcessesToUpdate, System};
use tailwater_io::sync::Mutex;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::{Outcome, Request, count, topics};
use crate::session::{Session, SessionId};
use crate::state::State;
use crate::status::Status;
use crate::users::Action;

/// Code of the transport TCP, which all clients use.
const TCP: u8 = 1;
/// User id that is reported for a client that is not logged in.
const NO_USER: u32 = u32::MAX;
/// Code of the role "leader". The only node of the cluster always has this role.
const LEADER: u8 = 0;
/// Code of the status "healthy". The only node of the cluster always has this status.
const HEALTHY: u8 = 0;
/// Code of the snapshot type that adds a fixed text to the snapshot. Clients use it to test the
/// transfer of snapshots.
const SNAPSHOT_TEST: u8 = 4;

/// System figures from the last request for statistics. The processor usage of the process is
/// measured from that request to the next one.
static PROBE: Mutex<Option<System>> = Mutex::new(None);

/// Returns the client that sent the request.
pub(super) fn get_me(state: &State, request: &Request<'_>) -> Outcome {
    Ok(details(state, request.session).to_bytes().to_vec())
}

/// Returns a client; an empty body if the client is not connected.
pub(super) fn get_client(state: &State, request: &Request<'_>) -> Outcome {
    let get = GetClientRequest::decode_from(request.body)?;
    state.users.authorize(request.user, Action::GetClient)?;
    let session = state.sessions.get(SessionId(get.client_id));
    Ok(session.map_or_else(Vec::new, |session| details(state, &session).to_bytes().to_vec()))
}

/// Returns all clients.
pub(super) fn get_clients(state: &State, request: &Request<'_>) -> Outcome {
    state.users.authorize(request.user, Action::GetClients)?;
    let clients = state.sessions.all().iter().map(|session| client(state, session)).collect();
    Ok(GetClientsResponse { clients }.to_bytes().to_vec())
}

fn client(state: &State, session: &Session) -> ClientResponse {
    let groups = state.groups.of_session(session.id);
    ClientResponse {
        client_id: session.id.0,
        user_id: session.binding().map_or(NO_USER, |binding| binding.user),
        transport: TCP,
        address: session.address.to_string(),
        consumer_groups_count: count(groups.len()),
    }
}

fn details(state: &State, session: &Session) -> ClientDetailsResponse {
    let groups = state.groups.of_session(session.id);
    let info = |(topic, group): &(tailwater_log::TopicId, u32)| ConsumerGroupInfoResponse {
        stream_id: topic.stream,
        topic_id: topic.topic,
        group_id: *group,
    };
    let consumer_groups = groups.iter().map(info).collect();
    ClientDetailsResponse { client: client(state, session), consumer_groups }
}

/// Returns a cluster of one node: this server, which is the healthy leader.
pub(super) fn get_cluster_metadata(state: &State, _request: &Request<'_>) -> Outcome {
    let ip = state.config.tcp.as_ref().map(|tcp| tcp.address.ip());
    let node = ClusterNodeResponse {
        name: "tailwater".to_owned(),
        ip: ip.map(|ip| ip.to_string()).unwrap_or_default(),
        tcp_port: state.port,
        quic_port: 0,
        http_port: 0,
        websocket_port: 0,
        role: LEADER,
        status: HEALTHY,
    };
    let response = ClusterMetadataResponse { name: "single-node".to_owned(), nodes: vec![node] };
    Ok(response.to_bytes().to_vec())
}

/// Returns statistics of the server, the process and the machine.
pub(super) fn get_stats(state: &State, request: &Request<'_>) -> Outcome {
    state.users.authorize(request.user, Action::GetStats)?;
    Ok(stats(state).to_bytes().to_vec())
}

fn stats(state: &State) -> StatsResponse {
    let catalog = state.log.catalog();
    let topics_count: usize = catalog.streams().values().map(|stream| stream.topics.len()).sum();
    let partitions: Vec<_> = state.log.partitions().iter().map(|it| it.stats()).collect();
    let machine = Machine::probe(state);
    StatsResponse {
        process_id: std::process::id(),
        cpu_usage: machine.process_percent,
        total_cpu_usage: machine.total_percent,
        memory_usage: machine.process_bytes,
        total_memory: machine.total_bytes,
        available_memory: machine.available_bytes,
        run_time: u64::try_from(state.started.elapsed().as_micros()).unwrap_or(u64::MAX),
        start_time: state.started_us,
        read_bytes: machine.read_bytes,
        written_bytes: machine.written_bytes,
        messages_size_bytes: partitions.iter().map(topics::size).sum(),
        streams_count: count(catalog.streams().len()),
        topics_count: count(topics_count),
        partitions_count: count(partitions.len()),
        segments_count: count(partitions.iter().map(|it| it.segments.max(1)).sum()),
        messages_count: partitions.iter().map(topics::messages).sum(),
        clients_count: count(state.sessions.count()),
        consumer_groups_count: count(state.groups.count()),
        hostname: System::host_name().unwrap_or_default(),
        os_name: System::name().unwrap_or_default(),
        os_version: System::long_os_version().unwrap_or_default(),
        kernel_version: System::kernel_version().unwrap_or_default(),
        iggy_server_version: super::VERSION.to_owned(),
        iggy_server_semver: Some(IGGY_PROTOCOL_VERSION),
        cache_metrics: Vec::new(),
        threads_count: machine.threads,
        free_disk_space: machine.free_disk_bytes,
        total_disk_space: machine.total_disk_bytes,
    }
}

/// Statistics of the process and the machine. A value is 0 if it is unknown.
#[derive(Default)]
struct Machine {
    process_percent: f32,
    total_percent: f32,
    process_bytes: u64,
    total_bytes: u64,
    available_bytes: u64,
    read_bytes: u64,
    written_bytes: u64,
    threads: u32,
    free_disk_bytes: u64,
    total_disk_bytes: u64,
}

impl Machine {
    fn probe(state: &State) -> Self {
        let mut probe = PROBE.lock();
        let system = probe.get_or_insert_with(System::new);
        system.refresh_memory();
        system.refresh_cpu_usage();
        let mut machine = Self {
            total_percent: system.global_cpu_usage(),
            total_bytes: system.total_memory(),
            available_bytes: system.available_memory(),
            ..Self::default()
        };
        if let Ok(id) = sysinfo::get_current_pid() {
            let kind = ProcessRefreshKind::nothing().with_cpu().with_memory().with_disk_usage();
            system.refresh_processes_specifics(
                ProcessesToUpdate::Some(&[id]),
                false,
                kind.with_tasks(),
            );
            if let Some(process) = system.process(id) {
                machine.process_percent = process.cpu_usage();
                machine.process_bytes = process.memory();
                machine.read_bytes = process.disk_usage().total_read_bytes;
                machine.written_bytes = process.disk_usage().total_written_bytes;
                machine.threads = process.tasks().map_or(0, |tasks| count(tasks.len()));
            }
        }
        // The log's disk is the one whose mount point is the longest prefix of the log's directory.
        let directory = state.log.directory();
        let disks = Disks::new_with_refreshed_list();
        let below = disks.iter().filter(|disk| directory.starts_with(disk.mount_point()));
        if let Some(disk) = below.max_by_key(|disk| disk.mount_point().as_os_str().len()) {
            machine.free_disk_bytes = disk.available_space();
            machine.total_disk_bytes = disk.total_space();
        }
        machine
    }
}

/// Returns a zip file for diagnosis, with the server's statistics, configuration and streams, but
/// without messages or secrets.
pub(super) fn get_snapshot(state: &State, request: &Request<'_>) -> Outcome {
    let get = GetSnapshotRequest::decode_from(request.body)?;
    state.users.authorize(request.user, Action::GetSnapshot)?;
    let stats = stats(state);
    let text = format!(
        "{stats:#?}\n\nopened: {:#?}\n\nmetrics:\n{}",
        state.log.open_report(),
        crate::prometheus::render(state)
    );
    let mut sections = vec![
        ("resource_usage.txt", text),
        ("server_config.txt", format!("{:#?}\n", state.config)),
        ("streams.txt", format!("{:#?}\n", state.log.catalog().streams())),
    ];
    if get.snapshot_types.contains(&SNAPSHOT_TEST) {
        sections.push(("test.txt", "test\n".to_owned()));
    }
    let method = match get.compression {
        1 => zip::CompressionMethod::Stored,
        _ => zip::CompressionMethod::Deflated,
    };
    archive(&sections, method).map_err(|_| Status::SNAPSHOT_FILE_COMPLETION_FAILED)
}

fn archive(
    sections: &[(&str, String)],
    method: zip::CompressionMethod,
) -> zip::result::ZipResult<Vec<u8>> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, text) in sections {
        archive.start_file(*name, SimpleFileOptions::default().compression_method(method))?;
        archive.write_all(text.as_bytes())?;
    }
    Ok(archive.finish()?.into_inner())
}
