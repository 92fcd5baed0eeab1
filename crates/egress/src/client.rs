//! The connection of one client: its requests, one after the other, and the tunnel that a `CONNECT` turns it into.

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use http::{HeaderMap, Request, Response, header};
use http_body_util::Either;
use hyper::{
    body::Incoming,
    server::conn::http1,
    service::service_fn,
    upgrade::{OnUpgrade, Upgraded},
};
use hyper_util::rt::{TokioIo, TokioTimer};
use subtle::ConstantTimeEq;
use tokio::{
    io::{AsyncRead, AsyncWrite, copy_bidirectional_with_sizes},
    net::TcpStream,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    ConnectionReport, Destination, End, Limits, Outcome, Refusal, Traffic,
    answers::{self, AnswerBody},
    bounded::BoundedLog,
    connect::{Connector, Unreached},
    forward::NotHttp,
    target::{NoTarget, Target},
    watched::{Activity, ByteCounts, Watched},
};

/// The limit of a request's head, and of the buffers of a client's connection. hyper compares it between two reads, so a head of
/// up to twice this length can pass.
const BUFFER_BYTES: usize = 64 * 1024;
/// The buffer of each direction of a tunnel.
const TUNNEL_BYTES: usize = 16 * 1024;

/// What all connections of a proxy share.
#[derive(Debug, Clone)]
pub(crate) struct Proxy {
    pub(crate) connector: Arc<Connector>,
    pub(crate) log: Arc<BoundedLog>,
    pub(crate) limits: Limits,
    /// Fires when the proxy is closed.
    pub(crate) close: CancellationToken,
    pub(crate) tasks: TaskTracker,
}

/// An open connection to a destination.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) destination: Destination,
    pub(crate) stream: Watched<TcpStream>,
    pub(crate) reported: Reported,
}

/// What the report of a connection's end needs.
#[derive(Debug)]
pub(crate) struct Reported {
    destination: Destination,
    address: SocketAddr,
    bytes: ByteCounts,
    activity: Activity,
    since: Instant,
}

/// A tunnel whose client has been told that it is open.
struct Tunnel {
    upgrade: OnUpgrade,
    open: Open,
}

/// One client.
#[derive(Clone)]
struct Client {
    proxy: Proxy,
    activity: Activity,
    /// The password that the client must send; none for a client of the private socket.
    password: Option<Arc<str>>,
    tunnel: Arc<Mutex<Option<Tunnel>>>,
}

impl Proxy {
    /// Serves a client until it leaves, is idle for too long or the proxy closes.
    pub(crate) async fn serve<S>(&self, stream: S, password: Option<Arc<str>>)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let activity = Activity::new();
        let client = Client {
            proxy: self.clone(),
            activity: activity.clone(),
            password,
            tunnel: Arc::default(),
        };
        tokio::select! {
            biased;
            () = client.answer_requests(stream) => {}
            () = activity.idle(self.limits.idle) => {}
            () = self.close.cancelled() => {}
        }
        if let Some(tunnel) = client.take_tunnel() {
            self.relay(tunnel).await;
        }
    }

    /// Copies the bytes of a tunnel until both sides are done. A side that has only stopped sending still gets its answer.
    async fn relay(&self, tunnel: Tunnel) {
        let Open {
            stream: mut destination,
            reported,
            ..
        } = tunnel.open;
        let copying = async {
            let upgraded: Upgraded = tunnel.upgrade.await.ok()?;
            let mut client = TokioIo::new(upgraded);
            let sizes = (TUNNEL_BYTES, TUNNEL_BYTES);
            copy_bidirectional_with_sizes(&mut client, &mut destination, sizes.0, sizes.1)
                .await
                .ok()
        };
        let end = tokio::select! {
            biased;
            copied = copying => match copied {
                Some(_) => End::Finished,
                None => self.given_up(&reported).unwrap_or(End::Broken),
            },
            () = reported.activity.idle(self.limits.idle) => End::Idle,
            () = self.close.cancelled() => End::Closing,
        };
        self.report_end(&reported, end);
    }

    /// Connects to a destination, and reports that or why not.
    async fn open(
        &self,
        destination: Destination,
        activity: &Activity,
    ) -> Result<Open, Response<AnswerBody>> {
        match self.connector.connect(&destination).await {
            Ok((stream, address)) => {
                let opened = ConnectionReport::new(Outcome::Opened, Some(destination.clone()));
                self.log.report(ConnectionReport {
                    address: Some(address),
                    ..opened
                });
                let stream = Watched::new(stream, activity.clone());
                let reported = Reported {
                    destination: destination.clone(),
                    address,
                    bytes: stream.bytes(),
                    activity: activity.clone(),
                    since: Instant::now(),
                };
                Ok(Open {
                    destination,
                    stream,
                    reported,
                })
            }
            Err(why) => {
                let outcome = match why {
                    Unreached::Refused(refusal) => Outcome::Refused(refusal),
                    Unreached::Failed(failure) => Outcome::Failed(failure),
                };
                let answer = answers::unreached(&destination, why);
                self.log
                    .report(ConnectionReport::new(outcome, Some(destination)));
                Err(answer)
            }
        }
    }

    /// Reports a client that was refused before its destination mattered.
    pub(crate) fn report_refused(&self, refusal: Refusal) {
        let outcome = Outcome::Refused(refusal);
        self.log.report(ConnectionReport::new(outcome, None));
    }

    pub(crate) fn report_end(&self, reported: &Reported, end: End) {
        let traffic = Traffic {
            sent: reported.bytes.written(),
            received: reported.bytes.read(),
            duration: reported.since.elapsed(),
        };
        self.log.report(ConnectionReport {
            address: Some(reported.address),
            traffic: Some(traffic),
            ..ConnectionReport::new(Outcome::Closed(end), Some(reported.destination.clone()))
        });
    }

    /// Why the proxy gave a connection up; `None` if it did not.
    pub(crate) fn given_up(&self, reported: &Reported) -> Option<End> {
        if self.close.is_cancelled() {
            Some(End::Closing)
        } else if reported.activity.is_idle(self.limits.idle) {
            Some(End::Idle)
        } else {
            None
        }
    }
}

impl Client {
    /// Answers requests until the client leaves, or a tunnel begins.
    async fn answer_requests<S>(&self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let stream = TokioIo::new(Watched::new(stream, self.activity.clone()));
        let answering = service_fn(|request: Request<Incoming>| {
            let client = self.clone();
            async move { Ok::<_, Infallible>(client.answer(request).await) }
        });
        let served = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.proxy.limits.head)
            .max_buf_size(BUFFER_BYTES)
            .preserve_header_case(true)
            .serve_connection(stream, answering)
            .with_upgrades()
            .await;
        // hyper has answered such a request itself.
        if served.is_err_and(|error| error.is_parse()) {
            self.proxy.report_refused(Refusal::BadRequest);
        }
    }

    async fn answer(self, mut request: Request<Incoming>) -> Response<AnswerBody> {
        if !self.has_password(request.headers()) {
            self.proxy.report_refused(Refusal::NoPassword);
            return answers::no_password();
        }
        let target = match Target::of(&request) {
            Ok(target) => target,
            Err(why) => {
                self.proxy.report_refused(match why {
                    NoTarget::AmbiguousHost => Refusal::AmbiguousHost,
                    NoTarget::NotForAProxy
                    | NoTarget::Scheme
                    | NoTarget::BadHost
                    | NoTarget::Port
                    | NoTarget::Hosts
                    | NoTarget::HostDiffers
                    | NoTarget::TunnelWithBody => Refusal::BadRequest,
                });
                return answers::no_target(why);
            }
        };
        let (Target::Tunnel(destination) | Target::Http(destination)) = &target;
        let open = match self.proxy.open(destination.clone(), &self.activity).await {
            Ok(open) => open,
            Err(answer) => return answer,
        };
        match target {
            Target::Tunnel(_) => {
                let upgrade = hyper::upgrade::on(&mut request);
                *self.tunnel() = Some(Tunnel { upgrade, open });
                answers::tunnel_opened()
            }
            Target::Http(destination) => match self.proxy.forward(request, open).await {
                Ok(response) => response.map(Either::Left),
                Err(NotHttp) => answers::not_http(&destination),
            },
        }
    }

    /// Whether a request has the password, if it needs one.
    fn has_password(&self, headers: &HeaderMap) -> bool {
        let Some(password) = &self.password else {
            return true;
        };
        let mut sent = headers.get_all(header::PROXY_AUTHORIZATION).iter();
        let (Some(sent), None) = (sent.next(), sent.next()) else {
            return false;
        };
        let Some((scheme, credentials)) = sent.to_str().ok().and_then(|text| text.split_once(' '))
        else {
            return false;
        };
        let Ok(credentials) = BASE64_STANDARD.decode(credentials.trim()) else {
            return false;
        };
        // The user name before the colon does not matter.
        let colon = credentials.iter().position(|byte| *byte == b':');
        let sent = colon.and_then(|at| credentials.get(at + 1..));
        // In constant time: the duration must not reveal how much of a guess is right.
        scheme.eq_ignore_ascii_case("basic")
            && sent.is_some_and(|sent| bool::from(sent.ct_eq(password.as_bytes())))
    }

    fn take_tunnel(&self) -> Option<Tunnel> {
        self.tunnel().take()
    }

    fn tunnel(&self) -> MutexGuard<'_, Option<Tunnel>> {
        self.tunnel.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
