//! Sends arbitrary bytes to a server of the message log, as a frame or as the body of a request of
//! any command. Checks that the server replies or ends the connection, and that it still serves
//! clients afterwards.
#![no_main]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{LazyLock, Mutex};

use iggy_binary_protocol::consensus::{Command, RequestHeader};
use iggy_binary_protocol::dispatch::COMMAND_TABLE;
use iggy_binary_protocol::requests::users::LoginRegisterRequest;
use iggy_binary_protocol::{
    ClientVersionInfo, HEADER_SIZE, IGGY_PROTOCOL_VERSION, Operation, WireEncode, WireName, codes,
};
use libfuzzer_sys::fuzz_target;
use tailwater_fuzz::Choices;
use tailwater_server::{Config, Flags, Server};

/// Offset of the field with the size of a frame in its header, in bytes.
const SIZE_OFFSET: usize = 48;
/// Offset of the session's number in the body of the reply to a login, in bytes. The result section
/// and the user's id precede it.
const SESSION_OFFSET: usize = 8;

/// A server that is started once and used by all inputs, with a client.
struct Target {
    _runtime: tokio::runtime::Runtime,
    _server: Server,
    _directory: tempfile::TempDir,
    address: SocketAddr,
    client: Mutex<Client>,
}

/// A client that is logged in.
struct Client {
    stream: TcpStream,
    session: u64,
    request: u64,
}

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().display().to_string();
    let settings = [
        ("system.path", path.as_str()),
        ("tcp.address", "127.0.0.1:0"),
        ("http.enabled", "false"),
        ("limits.failed_logins_max", "1000000"),
    ];
    let flags = Flags {
        settings: settings.map(|(key, value)| (key.into(), value.into())).into(),
        has_default_root_credentials: true,
        ..Flags::default()
    };
    let config = Config::load(&flags, &BTreeMap::new()).expect("a configuration").0;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let server = runtime.block_on(Server::start(config)).expect("a server");
    let address = server.addresses().tcp.expect("an address");
    let client = Mutex::new(Client::login(address));
    Target { _runtime: runtime, _server: server, _directory: directory, address, client }
});

impl Client {
    fn login(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("a connection");
        stream.set_nodelay(true).expect("an option");
        let mut client = Self { stream, session: 0, request: 0 };
        let name = |name| WireName::new(name).expect("a name");
        let login = LoginRegisterRequest {
            version_info: ClientVersionInfo {
                protocol_version: IGGY_PROTOCOL_VERSION,
                sdk_name: name("fuzz"),
                sdk_version: name("1"),
            },
            username: name("iggy"),
            password: "iggy".to_owned().into(),
            client_context: None,
        };
        let reply = client.call(Operation::Register, 0, &login.to_bytes());
        let body = reply.expect("the root user can log in");
        let session = body.get(SESSION_OFFSET..SESSION_OFFSET + 8).expect("a session");
        client.session = u64::from_le_bytes(session.try_into().expect("eight bytes"));
        client
    }

    /// Sends a request and returns the body of its reply; `None` if the server ended the session or
    /// the connection.
    fn call(&mut self, operation: Operation, code: u32, body: &[u8]) -> Option<Vec<u8>> {
        let mut reserved = [0; 60];
        reserved[..4].copy_from_slice(&code.to_le_bytes());
        let header = RequestHeader {
            command: Command::Request,
            operation,
            size: (HEADER_SIZE + body.len()) as u32,
            client: 1,
            request: self.request,
            session: self.session,
            reserved,
            ..RequestHeader::default()
        };
        self.request += 1;
        let frame = [bytemuck::bytes_of(&header), body].concat();
        self.stream.write_all(&frame).ok()?;
        let mut header = [0; HEADER_SIZE];
        self.stream.read_exact(&mut header).ok()?;
        let size = header[SIZE_OFFSET..SIZE_OFFSET + 4].try_into().expect("four bytes");
        let mut body = vec![0; u32::from_le_bytes(size) as usize - HEADER_SIZE];
        self.stream.read_exact(&mut body).ok()?;
        (header[60] == Command::Reply as u8).then_some(body)
    }
}

fuzz_target!(|input: &[u8]| {
    let (mut choices, data) = Choices::split(input);
    let target = &*TARGET;
    let choice = choices.number(1) as usize;
    if choice == 0 {
        let mut stream = TcpStream::connect(target.address).expect("a connection");
        // The write may fail, because the server may end the connection before it has read
        // everything.
        let _ = stream.write_all(data);
        let _ = stream.shutdown(Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    }
    let mut client = target.client.lock().expect("no panic");
    let commands = COMMAND_TABLE.iter().filter(|command| command.code != codes::LOGOUT_USER_CODE);
    let commands: Vec<_> = commands.collect();
    let command = commands[choice % commands.len()];
    let reply = match command.operation {
        Some(operation) => client.call(operation, 0, data),
        None => client.call(Operation::NonReplicated, command.code, data),
    };
    if reply.is_none() {
        *client = Client::login(target.address);
    }
    let pong = client.call(Operation::NonReplicated, codes::PING_CODE, &[]);
    assert!(pong.is_some(), "the session ended");
});
