//! Self-signed certificates for one run of one plugin, and verifiers that pin the peer's certificate.
//!
//! Both sides present a self-signed leaf and learn the other's through the handshake. A chain of trust proves
//! nothing here: the verifiers compare the certificate itself, and the TLS signature proves that the peer holds
//! its key.

use std::{io, sync::Arc};

use base64::{Engine, prelude::BASE64_STANDARD};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use rustls::{
    ClientConfig, DigitallySignedStruct, DistinguishedName, Error, ServerConfig, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime},
    server::danger::{ClientCertVerified, ClientCertVerifier},
};

/// The DNS name in both certificates.
pub(crate) const NAME: &str = "localhost";
const PEM_COLUMNS: usize = 64;

/// Our certificate and its key.
#[derive(Debug)]
pub(crate) struct Identity {
    certificate: CertificateDer<'static>,
    key: PrivatePkcs8KeyDer<'static>,
}

impl Identity {
    /// Makes a certificate that Go's verifier accepts as its own authority: go-plugin puts it into its pool of
    /// roots.
    pub(crate) fn make() -> io::Result<Self> {
        let failed = |error: rcgen::Error| io::Error::other(format!("a certificate: {error}"));
        let mut params = CertificateParams::new(vec![NAME.to_owned()]).map_err(failed)?;
        params.distinguished_name.push(DnType::CommonName, NAME);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyEncipherment,
            KeyUsagePurpose::KeyAgreement,
            KeyUsagePurpose::KeyCertSign,
        ];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ClientAuth,
            ExtendedKeyUsagePurpose::ServerAuth,
        ];
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = params.self_signed(&key).map_err(failed)?;
        Ok(Self {
            certificate: certificate.der().clone(),
            key: PrivatePkcs8KeyDer::from(key.serialize_der()),
        })
    }

    /// The certificate without its key, in DER.
    pub(crate) fn der(&self) -> &[u8] {
        &self.certificate
    }

    pub(crate) fn pem(&self) -> String {
        let text = BASE64_STANDARD.encode(self.der());
        let mut out = "-----BEGIN CERTIFICATE-----\n".to_owned();
        for line in text.as_bytes().chunks(PEM_COLUMNS) {
            out.push_str(&String::from_utf8_lossy(line));
            out.push('\n');
        }
        out.push_str("-----END CERTIFICATE-----\n");
        out
    }

    /// The TLS configuration of a host that only connects to the holder of `theirs`.
    pub(crate) fn client(&self, theirs: Vec<u8>) -> Result<ClientConfig, Error> {
        let pinned = Arc::new(PinnedCertificate::new(theirs));
        let config = ClientConfig::builder_with_provider(pinned.provider.clone());
        let mut config = config
            .with_safe_default_protocol_versions()?
            // Stricter than the default verifier: only one certificate is accepted, and no certificate authority.
            .dangerous()
            .with_custom_certificate_verifier(pinned)
            .with_client_auth_cert(vec![self.certificate.clone()], self.private_key())?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(config)
    }

    /// The TLS configuration of a plugin that only serves the holder of `theirs`.
    pub(crate) fn server(&self, theirs: Vec<u8>) -> Result<ServerConfig, Error> {
        let pinned = Arc::new(PinnedCertificate::new(theirs));
        let config = ServerConfig::builder_with_provider(pinned.provider.clone());
        let mut config = config
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(pinned)
            .with_single_cert(vec![self.certificate.clone()], self.private_key())?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(config)
    }

    fn private_key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::Pkcs8(self.key.clone_key())
    }
}

/// The first certificate of a PEM text, in DER.
pub(crate) fn from_pem(text: &str) -> Option<Vec<u8>> {
    let (_, rest) = text.split_once("-----BEGIN CERTIFICATE-----")?;
    let (body, _) = rest.split_once("-----END CERTIFICATE-----")?;
    let body: String = body.split_whitespace().collect();
    BASE64_STANDARD.decode(body).ok()
}

/// Accepts the peer's one certificate and nothing else.
#[derive(Debug)]
struct PinnedCertificate {
    theirs: CertificateDer<'static>,
    provider: Arc<CryptoProvider>,
}

impl PinnedCertificate {
    fn new(theirs: Vec<u8>) -> Self {
        Self {
            theirs: theirs.into(),
            // go-plugin's certificates have P-521 keys, which need rustls's aws-lc-rs provider.
            provider: Arc::new(aws_lc_rs::default_provider()),
        }
    }

    fn check(&self, shown: &CertificateDer<'_>) -> Result<(), Error> {
        if *shown == self.theirs {
            Ok(())
        } else {
            Err(Error::General(
                "the peer presented a certificate other than the one from its handshake".to_owned(),
            ))
        }
    }

    fn tls12(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn tls13(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}

impl ServerCertVerifier for PinnedCertificate {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(shown).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.tls12(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.tls13(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }
}

impl ClientCertVerifier for PinnedCertificate {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        shown: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(shown).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.tls12(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.tls13(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_round_trip_through_pem() {
        let identity = Identity::make().expect("random numbers");
        assert_eq!(from_pem(&identity.pem()).as_deref(), Some(identity.der()));
        assert_eq!(from_pem("nothing"), None);
    }
}
