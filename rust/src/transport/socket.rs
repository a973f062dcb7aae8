//! Opens a socket with the configured options, and receives into uninitialised memory.

use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

use mio::net::TcpStream;
use socket2::{Domain, MaybeUninitSlice, Protocol, SockRef, Socket, Type};

/// The options of every socket.
#[derive(Clone, Debug, Default)]
pub struct SocketOptions {
    pub send_buffer_bytes: Option<usize>,
    pub receive_buffer_bytes: Option<usize>,
    /// More arguments for `setsockopt`.
    pub more: Vec<(i32, i32, Vec<u8>)>,
}

/// Starts to connect to a numeric address.
pub fn open(ip: &str, port: i64, options: &SocketOptions) -> io::Result<TcpStream> {
    let address = address(ip, port)?;
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    set_options(&socket, options)?;
    match socket.connect(&address.into()) {
        Ok(()) => {}
        Err(error) if is_under_way(&error) => {}
        Err(error) => return Err(error),
    }
    Ok(TcpStream::from_std(socket.into()))
}

fn is_under_way(error: &io::Error) -> bool {
    #[cfg(unix)]
    if error.raw_os_error() == Some(libc::EINPROGRESS) {
        return true;
    }
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

fn address(ip: &str, port: i64) -> io::Result<SocketAddr> {
    let invalid = |text: String| io::Error::new(io::ErrorKind::InvalidInput, text);
    let port = u16::try_from(port).map_err(|_| invalid(format!("{port} is not a valid port")))?;
    let (bare, zone) = ip.split_once('%').unwrap_or((ip, ""));
    if !zone.is_empty() {
        let ip: Ipv6Addr =
            bare.parse().map_err(|_| invalid(format!("{ip} is not an IP address")))?;
        return Ok(SocketAddrV6::new(ip, port, 0, zone_index(zone)?).into());
    }
    let ip: IpAddr = bare.parse().map_err(|_| invalid(format!("{ip} is not an IP address")))?;
    Ok(SocketAddr::new(ip, port))
}

/// The number of a link-local address's zone; outside Windows it may be an interface's name.
fn zone_index(zone: &str) -> io::Result<u32> {
    if let Ok(index) = zone.parse() {
        return Ok(index);
    }
    #[cfg(unix)]
    if let Ok(name) = std::ffi::CString::new(zone) {
        // SAFETY: `name` ends in a zero and lives until the call returns.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        if index != 0 {
            return Ok(index);
        }
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("there is no network interface {zone}"),
    ))
}

fn set_options(socket: &Socket, options: &SocketOptions) -> io::Result<()> {
    socket.set_tcp_nodelay(true)?;
    socket.set_keepalive(true)?;
    if let Some(size) = options.send_buffer_bytes {
        socket.set_send_buffer_size(size)?;
    }
    if let Some(size) = options.receive_buffer_bytes {
        socket.set_recv_buffer_size(size)?;
    }
    for (level, name, value) in &options.more {
        set_raw(socket, *level, *name, value)?;
    }
    Ok(())
}

#[cfg(unix)]
fn set_raw(socket: &Socket, level: i32, name: i32, value: &[u8]) -> io::Result<()> {
    use std::os::fd::AsRawFd;

    // SAFETY: the pointer and the length are those of one slice, which outlives the call.
    let code = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            value.as_ptr().cast(),
            value.len() as libc::socklen_t,
        )
    };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(windows)]
fn set_raw(socket: &Socket, level: i32, name: i32, value: &[u8]) -> io::Result<()> {
    use std::os::windows::io::AsRawSocket;

    use windows_sys::Win32::Networking::WinSock;

    // SAFETY: the pointer and the length are those of one slice, which outlives the call.
    let code = unsafe {
        WinSock::setsockopt(
            socket.as_raw_socket() as WinSock::SOCKET,
            level,
            name,
            value.as_ptr(),
            value.len() as i32,
        )
    };
    // SAFETY: the call has no arguments, and reads the error of this thread.
    if code == 0 {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(unsafe { WinSock::WSAGetLastError() }))
    }
}

/// Receives into `first` and, after it is full, into `second`; None if no bytes are available.
///
/// The returned number of bytes has been written, in that order.
pub fn receive(
    stream: &TcpStream,
    first: &mut [MaybeUninit<u8>],
    second: &mut [MaybeUninit<u8>],
) -> io::Result<Option<usize>> {
    let socket = SockRef::from(stream);
    loop {
        let outcome = if first.is_empty() {
            socket.recv(second)
        } else {
            let mut both = [MaybeUninitSlice::new(first), MaybeUninitSlice::new(second)];
            socket.recv_vectored(&mut both).map(|(count, _)| count)
        };
        match outcome {
            Ok(count) => return Ok(Some(count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The first `count` bytes, as bytes.
///
/// # Safety
/// They have been written.
pub unsafe fn written(buffer: &[MaybeUninit<u8>], count: usize) -> &[u8] {
    let part = &buffer[..count];
    // SAFETY: the caller guarantees that they are initialised; the layout is that of bytes.
    unsafe { std::slice::from_raw_parts(part.as_ptr().cast(), part.len()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numeric_addresses() {
        assert_eq!(address("127.0.0.1", 9092).unwrap().to_string(), "127.0.0.1:9092");
        assert_eq!(address("::1", 9092).unwrap().to_string(), "[::1]:9092");
        assert_eq!(address("fe80::1%7", 1).unwrap().to_string(), "[fe80::1%7]:1");
        assert!(address("localhost", 9092).is_err());
        assert!(address("127.0.0.1", 70_000).is_err());
        assert!(address("fe80::1%no such interface", 1).is_err());
    }
}
