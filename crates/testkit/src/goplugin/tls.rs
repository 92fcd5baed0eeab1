//! Certificates as Go makes them, and checks that accept one of them.

use std::sync::Arc;

use anyhow::Result;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P521_SHA512,
};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    ClientConfig, DigitallySignedStruct, DistinguishedName, Error, ServerConfig, SignatureScheme,
};

/// A certificate and its key.
pub(super) struct Identity {
    pub(super) certificate: CertificateDer<'static>,
    key: Vec<u8>,
}

impl Identity {
    pub(super) fn make() -> Result<Self> {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()])?;
        let name = &mut params.distinguished_name;
        name.push(DnType::CommonName, "localhost");
        name.push(DnType::OrganizationName, "HashiCorp");
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
        let key = KeyPair::generate_for(&PKCS_ECDSA_P521_SHA512)?;
        Ok(Self {
            certificate: params.self_signed(&key)?.der().clone(),
            key: key.serialize_der(),
        })
    }

    fn key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.clone()))
    }

    pub(super) fn server(&self, theirs: Vec<u8>) -> Result<ServerConfig> {
        let only = Arc::new(Only::new(theirs));
        let mut config = ServerConfig::builder_with_provider(only.provider.clone())
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(only)
            .with_single_cert(vec![self.certificate.clone()], self.key())?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(config)
    }

    pub(super) fn client(&self, theirs: Vec<u8>) -> Result<ClientConfig> {
        let only = Arc::new(Only::new(theirs));
        let mut config = ClientConfig::builder_with_provider(only.provider.clone())
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(only)
            .with_client_auth_cert(vec![self.certificate.clone()], self.key())?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(config)
    }
}

/// Accepts one certificate.
#[derive(Debug)]
struct Only {
    theirs: Vec<u8>,
    provider: Arc<CryptoProvider>,
}

impl Only {
    fn new(theirs: Vec<u8>) -> Self {
        Self {
            theirs,
            provider: Arc::new(aws_lc_rs::default_provider()),
        }
    }

    fn accept(&self, shown: &CertificateDer<'_>) -> Result<(), Error> {
        if shown.as_ref() == self.theirs {
            Ok(())
        } else {
            Err(Error::General("another certificate".to_owned()))
        }
    }
}

macro_rules! signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            let algorithms = &self.provider.signature_verification_algorithms;
            verify_tls12_signature(message, certificate, signed, algorithms)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            let algorithms = &self.provider.signature_verification_algorithms;
            verify_tls13_signature(message, certificate, signed, algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            let algorithms = &self.provider.signature_verification_algorithms;
            algorithms.supported_schemes()
        }
    };
}

impl ServerCertVerifier for Only {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.accept(shown).map(|()| ServerCertVerified::assertion())
    }

    signatures!();
}

impl ClientCertVerifier for Only {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        shown: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.accept(shown).map(|()| ClientCertVerified::assertion())
    }

    signatures!();
}
