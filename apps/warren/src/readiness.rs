//! Tells the service manager that the server accepts clients: systemd's `READY=1`, for units of `Type=notify`.
//! Refuses to know when that is.

use anyhow::{Context, Result};
use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Sends the message to the socket that `NOTIFY_SOCKET` names (sd_notify(3)); without that variable there is nobody
/// to tell.
///
/// # Errors
/// The variable names a socket that cannot be written to.
pub(crate) fn tell() -> Result<()> {
    match std::env::var_os("NOTIFY_SOCKET") {
        Some(name) => {
            tell_socket(&name).with_context(|| format!("cannot write to NOTIFY_SOCKET={}", name.display()))
        }
        None => Ok(()),
    }
}

fn tell_socket(name: &OsStr) -> std::io::Result<()> {
    let address = match name.as_bytes() {
        [b'@', unseen @ ..] => SocketAddr::from_abstract_name(unseen)?,
        path => SocketAddr::from_pathname(OsStr::from_bytes(path))?,
    };
    UnixDatagram::unbound()?.send_to_addr(b"READY=1", &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 64];
        let bytes = socket.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..bytes]).into_owned()
    }

    #[test]
    fn a_socket_in_a_folder_gets_the_message() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        tell_socket(path.as_os_str()).unwrap();
        assert_eq!(received(&socket), "READY=1");
    }

    #[test]
    fn a_socket_without_a_file_gets_the_message() {
        let name = format!("warren-readiness-{}", std::process::id());
        let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        tell_socket(OsStr::new(&format!("@{name}"))).unwrap();
        assert_eq!(received(&socket), "READY=1");
    }

    #[test]
    fn a_socket_that_is_not_there_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        assert!(tell_socket(folder.path().join("nobody").as_os_str()).is_err());
    }
}
