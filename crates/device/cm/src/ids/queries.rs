//! Queries about an id: QUERY and QUERY_ROUTE.

use super::id::{Id, Stage};
use super::{ChannelId, Ids, Reply, room_for};
use crate::Path;
use crate::ucma::{
    Errno, PathRecData, Query, QueryAddrResp, QueryRouteResp, UserPathRec, write_ib, write_ip,
};

/// Length of QUERY_ROUTE's answer without the adapter's index, which older libraries lack.
const ROUTE_MIN: usize = 200;
/// Length of QUERY's answer without the index.
const ADDR_MIN: usize = 272;
/// For management, data, and both directions.
const PATH_FLAGS: u32 = 0x2B;
/// The selector for "exactly".
const EXACTLY: u8 = 2;
/// Exponent of the longest life of a datagram.
const LIFE_TIME: u8 = 16;

impl Ids {
    pub(super) fn query(
        &mut self,
        channel: ChannelId,
        command: &Query,
        out_len: usize,
    ) -> Result<Reply, Errno> {
        let id = self.find(channel, command.id)?;
        let mut bytes = match command.option {
            0 => addresses(id, out_len)?,
            1 => paths(id, out_len)?,
            2 => gids(id, out_len)?,
            _ => return Err(Errno::ENOSYS),
        };
        bytes.truncate(out_len);
        Ok(Reply { at: command.response, bytes })
    }

    pub(super) fn query_route(
        &mut self,
        channel: ChannelId,
        command: &Query,
        out_len: usize,
    ) -> Result<Reply, Errno> {
        room_for(ROUTE_MIN, out_len)?;
        let id = self.find(channel, command.id)?;
        let mut resp = QueryRouteResp::default();
        if let Some(source) = id.source {
            write_ip(source, &mut resp.src_addr);
        }
        if let Some(destination) = id.destination {
            write_ip(destination, &mut resp.dst_addr);
        }
        if let Some(device) = id.device {
            resp.node_guid = device.guid.to_be_bytes();
            resp.port_num = device.port_num;
            resp.ibdev_index = device.index;
            resp.ib_route.sgid = device.gid;
            resp.ib_route.pkey = device.pkey.to_be_bytes();
        }
        if let Some(path) = id.path().filter(|_| has_route(id)) {
            resp.num_paths = 1;
            resp.ib_route = user_path(&path);
        }
        let mut bytes = Vec::from(resp.emit());
        bytes.truncate(out_len);
        Ok(Reply { at: command.response, bytes })
    }
}

fn has_route(id: &Id) -> bool {
    matches!(id.stage, Stage::RouteResolved | Stage::Connect)
}

/// Returns the fields about the adapter in QUERY's answers with addresses and GIDs.
fn device_resp(id: &Id) -> QueryAddrResp {
    let Some(device) = id.device else { return QueryAddrResp::default() };
    QueryAddrResp {
        node_guid: device.guid.to_be_bytes(),
        port_num: device.port_num,
        pkey: device.pkey.to_be_bytes(),
        ibdev_index: device.index,
        ..QueryAddrResp::default()
    }
}

fn addresses(id: &Id, out_len: usize) -> Result<Vec<u8>, Errno> {
    room_for(ADDR_MIN, out_len)?;
    let mut resp = device_resp(id);
    resp.src_size = id.source.map_or(0, |source| write_ip(source, &mut resp.src_addr));
    resp.dst_size = id.destination.map_or(0, |there| write_ip(there, &mut resp.dst_addr));
    Ok(resp.emit().into())
}

fn gids(id: &Id, out_len: usize) -> Result<Vec<u8>, Errno> {
    room_for(ADDR_MIN, out_len)?;
    let mut resp = device_resp(id);
    let pkey = u16::from_be_bytes(resp.pkey);
    let local = id.device.map_or([0; 16], |device| device.gid);
    let remote = id.path().map_or([0; 16], |path| path.remote_gid);
    let port = |address: Option<std::net::SocketAddr>| address.map_or(0, |a| a.port());
    let service = id.service_id(port(id.source));
    resp.src_size = write_ib(local, pkey, service, &mut resp.src_addr);
    let service = id.service_id(port(id.destination));
    resp.dst_size = write_ib(remote, pkey, service, &mut resp.dst_addr);
    Ok(resp.emit().into())
}

fn paths(id: &Id, out_len: usize) -> Result<Vec<u8>, Errno> {
    const HEADER_LEN: usize = 8;
    room_for(HEADER_LEN, out_len)?;
    let path = id.path().filter(|_| has_route(id));
    let mut bytes = Vec::from(u32::from(path.is_some()).to_ne_bytes());
    bytes.resize(HEADER_LEN, 0);
    if let Some(path) = path.filter(|_| out_len >= HEADER_LEN + PathRecData::LEN) {
        let destination = id.destination.map_or(0, |there| there.port());
        let path_rec = path_record(&path, id.service_id(destination));
        bytes.extend(PathRecData { flags: PATH_FLAGS, path_rec }.emit());
    }
    Ok(bytes)
}

/// Returns a path record as subnet administration sends it, all big-endian: service id, GIDs, LIDs,
/// then words with several fields.
fn path_record(path: &Path, service_id: u64) -> [u8; 64] {
    let mut record = [0; 64];
    record[..8].copy_from_slice(&service_id.to_be_bytes());
    record[8..24].copy_from_slice(&path.remote_gid);
    record[24..40].copy_from_slice(&path.local_gid);
    let flow = (path.flow_label & 0x000F_FFFF) << 8 | u32::from(path.hop_limit);
    record[44..48].copy_from_slice(&flow.to_be_bytes());
    record[48] = path.traffic_class;
    // Reversible; a single path.
    record[49] = 0x81;
    record[50..52].copy_from_slice(&path.pkey.to_be_bytes());
    record[53] = path.sl & 0x0F;
    record[54] = EXACTLY << 6 | path.mtu & 0x3F;
    record[55] = EXACTLY << 6 | path.rate & 0x3F;
    record[56] = EXACTLY << 6 | LIFE_TIME;
    record
}

fn user_path(path: &Path) -> UserPathRec {
    UserPathRec {
        dgid: path.remote_gid,
        sgid: path.local_gid,
        flow_label: path.flow_label.to_be_bytes(),
        reversible: 1,
        mtu: u32::from(path.mtu),
        pkey: path.pkey.to_be_bytes(),
        hop_limit: path.hop_limit,
        traffic_class: path.traffic_class,
        numb_path: 1,
        sl: path.sl,
        mtu_selector: EXACTLY,
        rate_selector: EXACTLY,
        rate: path.rate,
        packet_life_time_selector: EXACTLY,
        packet_life_time: LIFE_TIME,
        preference: 0,
    }
}
