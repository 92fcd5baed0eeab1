//! The known forms of secrets, as a table: a sign in the text, and the position of the secret relative to it.
//!
//! Looking for signs is much faster than looking for forms, and most bodies have none. So a body is first searched for
//! [`FINGERPRINTS`], which are parts of signs in small letters; only where one is found are the signs themselves looked
//! for, and only at a sign is its form tried.

/// The characters that a secret is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Set {
    Alnum,
    Hex,
    /// Capital letters and digits.
    Upper,
    /// Letters, digits, `_` and `-`.
    Url64,
    /// The same and dots between them.
    Dotted,
    /// The characters of any base-64 or percent encoding.
    Loose,
}

/// Where the secret lies from a sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// The secret begins with the sign, in this case, followed by at least this many characters of the set.
    Token(Set, usize),
    /// The same, at the beginning of a word only: the sign is short.
    Word(Set, usize),
    /// The sign ends a name, and its value is the secret.
    Name,
    /// The same for a name that is also a plain word: it stands alone, is assigned with `=` or quoted, and the value is
    /// at least so long.
    Strict(usize),
    /// The same for a common word: the value must look random, too.
    Random(usize),
    /// A name whose value is the rest of the line where it is a header.
    Header,
    /// A provider whose secrets have no form: a value that looks random, of a name that begins with the sign.
    Near(usize),
    /// A host whose addresses are secrets: what follows the sign, at least so long.
    Address(usize),
    /// The password of an address.
    Url,
    /// The password in front of the sign, in a data source of Go.
    Source,
    /// A command that takes a secret with these options.
    Command(&'static [(&'static str, OptionValue)]),
    /// A private key between two lines of dashes.
    Pem,
    /// Parts in base 64 with dots between them.
    Jwt,
    /// What follows the word.
    Bearer,
    /// A number, the sign, and a token.
    Telegram,
}

/// How an option of a command gets its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OptionValue {
    /// As the next word, or joined to the option.
    Either,
    /// Joined to the option only.
    Joined,
    /// As the next word, which is a name and the secret with a colon between them.
    Pair,
}

/// A sign and how to match it. Signs are found in either case.
#[derive(Debug, Clone, Copy)]
pub(super) struct Form {
    pub(super) sign: &'static str,
    pub(super) shape: Shape,
}

const fn form(sign: &'static str, shape: Shape) -> Form {
    Form { sign, shape }
}

const CURL: Shape = Shape::Command(&[
    ("-u", OptionValue::Pair),
    ("--user", OptionValue::Pair),
    ("-U", OptionValue::Pair),
    ("--proxy-user", OptionValue::Pair),
]);

/// Parts of signs in small letters. Each sign contains one of them.
pub(super) const FINGERPRINTS: &[&str] = &[
    "pass",
    "pwd",
    "secret",
    "token",
    "key",
    "auth",
    "cred",
    "cookie",
    "sess",
    "sig",
    "bearer",
    "sk-",
    "sk_",
    "rk_",
    "whsec_",
    "akia",
    "asia",
    "ltai",
    "akid",
    "gho_",
    "ghp_",
    "ghu_",
    "ghs_",
    "ghr_",
    "_pat_",
    "glp",
    "gld",
    "glr",
    "glc",
    "glf",
    "gls",
    "xox",
    "xapp-",
    "aiza",
    "gocspx-",
    "ya29.",
    "1//0",
    "npm_",
    "pypi-",
    "hf_",
    "sg.",
    "hvs.",
    "hvb.",
    "hvr.",
    "_v1_",
    "gsk_",
    "r8_",
    "xai-",
    "pplx-",
    "shp",
    "sq0",
    "lin_api_",
    "ntn_",
    "figd_",
    "tt3x",
    "dapi",
    "nrak-",
    "pmak-",
    "pul-",
    "rubygems_",
    "sntry",
    "eyj",
    "-----begin",
    "://",
    ":\\/",
    ":\\\\",
    "@tcp(",
    "@unix(",
    ":aa",
    "hook",
    "discord",
    "heroku",
    "mailchimp",
    "telegram",
    "curl",
    "mysql",
    "redis-cli",
    "docker login",
    "ldapsearch",
    "eaa",
    "sbp_",
    "akcp",
    "dp.pt.",
    "dp.st.",
    "pscale_",
    "hrku-",
    "dckr_oat_",
];

pub(super) const FORMS: &[Form] = &[
    // Names.
    form("password", Shape::Name),
    form("passwd", Shape::Name),
    form("passphrase", Shape::Name),
    form("passcode", Shape::Name),
    form("pwd", Shape::Name),
    form("pass", Shape::Strict(1)),
    form("secret", Shape::Name),
    form("secret_key", Shape::Name),
    form("secret-key", Shape::Name),
    form("secretkey", Shape::Name),
    form("secret_key_base", Shape::Name),
    form("secret_access_key", Shape::Name),
    form("secretaccesskey", Shape::Name),
    form("secret_id", Shape::Name),
    form("token", Shape::Name),
    form("api_key", Shape::Name),
    form("api-key", Shape::Name),
    form("apikey", Shape::Name),
    form("access_key", Shape::Name),
    form("access-key", Shape::Name),
    form("accesskey", Shape::Name),
    form("account_key", Shape::Name),
    form("accountkey", Shape::Name),
    form("private_key", Shape::Name),
    form("private-key", Shape::Name),
    form("privatekey", Shape::Name),
    form("private_key_id", Shape::Name),
    form("encryption_key", Shape::Name),
    form("signing_key", Shape::Name),
    form("master_key", Shape::Name),
    form("client-key-data", Shape::Name),
    form("credential", Shape::Strict(8)),
    form("credentials", Shape::Strict(8)),
    form("auth", Shape::Strict(12)),
    form("sig", Shape::Strict(16)),
    form("x-amz-signature", Shape::Name),
    form("x-goog-signature", Shape::Name),
    form("sessionid", Shape::Name),
    form("sessid", Shape::Name),
    form("session_key", Shape::Name),
    form("key", Shape::Random(24)),
    form("session", Shape::Random(20)),
    // Headers.
    form("authorization", Shape::Header),
    form("cookie", Shape::Header),
    form("bearer", Shape::Bearer),
    // Clouds.
    form("AKIA", Shape::Token(Set::Upper, 16)),
    form("ASIA", Shape::Token(Set::Upper, 16)),
    form("LTAI", Shape::Word(Set::Alnum, 12)),
    form("AKID", Shape::Word(Set::Alnum, 32)),
    form("AIza", Shape::Token(Set::Url64, 30)),
    form("GOCSPX-", Shape::Token(Set::Url64, 20)),
    form("ya29.", Shape::Word(Set::Dotted, 20)),
    form("1//0", Shape::Word(Set::Url64, 30)),
    form("dop_v1_", Shape::Token(Set::Hex, 40)),
    form("doo_v1_", Shape::Token(Set::Hex, 40)),
    form("dor_v1_", Shape::Token(Set::Hex, 40)),
    form("HRKU-", Shape::Token(Set::Url64, 30)),
    form("hvs.", Shape::Word(Set::Url64, 20)),
    form("hvb.", Shape::Word(Set::Url64, 20)),
    form("hvr.", Shape::Word(Set::Url64, 20)),
    // Code and packages.
    form("gho_", Shape::Token(Set::Alnum, 16)),
    form("ghp_", Shape::Token(Set::Alnum, 16)),
    form("ghu_", Shape::Token(Set::Alnum, 16)),
    form("ghs_", Shape::Token(Set::Alnum, 16)),
    form("ghr_", Shape::Token(Set::Alnum, 16)),
    form("github_pat_", Shape::Token(Set::Url64, 16)),
    form("glpat-", Shape::Token(Set::Dotted, 16)),
    form("gldt-", Shape::Token(Set::Url64, 16)),
    form("glrt-", Shape::Token(Set::Dotted, 16)),
    form("glptt-", Shape::Token(Set::Url64, 16)),
    form("glcbt-", Shape::Token(Set::Url64, 16)),
    form("glft-", Shape::Token(Set::Url64, 16)),
    form("glsoat-", Shape::Token(Set::Url64, 16)),
    form("npm_", Shape::Word(Set::Alnum, 30)),
    form("pypi-", Shape::Token(Set::Url64, 50)),
    form("rubygems_", Shape::Token(Set::Hex, 40)),
    form("dckr_pat_", Shape::Token(Set::Url64, 20)),
    form("dckr_oat_", Shape::Token(Set::Url64, 20)),
    form("AKCp", Shape::Word(Set::Alnum, 60)),
    form("pul-", Shape::Word(Set::Hex, 40)),
    form("sntrys_", Shape::Token(Set::Loose, 40)),
    form("sntryu_", Shape::Token(Set::Loose, 40)),
    form("PMAK-", Shape::Token(Set::Url64, 40)),
    // Models.
    form("sk-", Shape::Word(Set::Url64, 16)),
    form("hf_", Shape::Word(Set::Alnum, 30)),
    form("gsk_", Shape::Word(Set::Alnum, 40)),
    form("r8_", Shape::Word(Set::Alnum, 30)),
    form("xai-", Shape::Word(Set::Alnum, 60)),
    form("pplx-", Shape::Word(Set::Alnum, 30)),
    // Money and shops.
    form("sk_live_", Shape::Token(Set::Alnum, 16)),
    form("sk_test_", Shape::Token(Set::Alnum, 16)),
    form("rk_live_", Shape::Token(Set::Alnum, 16)),
    form("rk_test_", Shape::Token(Set::Alnum, 16)),
    form("whsec_", Shape::Token(Set::Loose, 20)),
    form("shpat_", Shape::Token(Set::Hex, 32)),
    form("shpca_", Shape::Token(Set::Hex, 32)),
    form("shppa_", Shape::Token(Set::Hex, 32)),
    form("shpss_", Shape::Token(Set::Hex, 32)),
    form("sq0atp-", Shape::Token(Set::Url64, 20)),
    form("sq0csp-", Shape::Token(Set::Url64, 20)),
    form("EAA", Shape::Word(Set::Alnum, 60)),
    // Messages.
    form("xoxa-", Shape::Token(Set::Loose, 8)),
    form("xoxb-", Shape::Token(Set::Loose, 8)),
    form("xoxc-", Shape::Token(Set::Loose, 8)),
    form("xoxd-", Shape::Token(Set::Loose, 8)),
    form("xoxe-", Shape::Token(Set::Loose, 8)),
    form("xoxp-", Shape::Token(Set::Loose, 8)),
    form("xoxr-", Shape::Token(Set::Loose, 8)),
    form("xoxs-", Shape::Token(Set::Loose, 8)),
    form("xapp-", Shape::Token(Set::Url64, 20)),
    form("SG.", Shape::Word(Set::Dotted, 30)),
    form("key-", Shape::Word(Set::Hex, 32)),
    form(":AA", Shape::Telegram),
    form("hooks.slack.com", Shape::Address(20)),
    form("hooks.zapier.com", Shape::Address(20)),
    form("webhook.office.com", Shape::Address(20)),
    form("api/webhooks/", Shape::Address(20)),
    form("api.telegram.org", Shape::Address(20)),
    form("discord", Shape::Near(50)),
    form("mailchimp", Shape::Near(32)),
    form("heroku", Shape::Near(32)),
    // Tools of teams.
    form("lin_api_", Shape::Token(Set::Alnum, 30)),
    form("ntn_", Shape::Word(Set::Alnum, 40)),
    form("secret_", Shape::Word(Set::Alnum, 40)),
    form("figd_", Shape::Token(Set::Url64, 30)),
    form("ATATT3x", Shape::Token(Set::Loose, 40)),
    form("ATCTT3x", Shape::Token(Set::Loose, 40)),
    form("dapi", Shape::Word(Set::Hex, 32)),
    form("glsa_", Shape::Token(Set::Url64, 30)),
    form("glc_", Shape::Word(Set::Loose, 40)),
    form("NRAK-", Shape::Token(Set::Upper, 20)),
    form("tskey-", Shape::Token(Set::Url64, 20)),
    form("sbp_", Shape::Word(Set::Hex, 40)),
    form("dp.pt.", Shape::Word(Set::Alnum, 30)),
    form("dp.st.", Shape::Word(Set::Dotted, 30)),
    form("pscale_tkn_", Shape::Token(Set::Dotted, 30)),
    form("pscale_pw_", Shape::Token(Set::Dotted, 30)),
    // Keys, tokens and addresses by their build.
    form("AGE-SECRET-KEY-1", Shape::Token(Set::Upper, 40)),
    form("-----BEGIN", Shape::Pem),
    form("eyJ", Shape::Jwt),
    form("://", Shape::Url),
    form(":\\/\\/", Shape::Url),
    form(":\\\\/\\\\/", Shape::Url),
    form("@tcp(", Shape::Source),
    form("@unix(", Shape::Source),
    // Commands.
    form("curl", CURL),
    form("sshpass", Shape::Command(&[("-p", OptionValue::Either)])),
    form("mysql", Shape::Command(&[("-p", OptionValue::Joined)])),
    form("redis-cli", Shape::Command(&[("-a", OptionValue::Either)])),
    form(
        "docker login",
        Shape::Command(&[("-p", OptionValue::Either)]),
    ),
    form("ldapsearch", Shape::Command(&[("-w", OptionValue::Either)])),
];
