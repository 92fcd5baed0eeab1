//! Forms of secrets. Every value is made up when the test runs, so that no scanner of sources takes one for real.

/// One form: a text with a secret in it.
#[derive(Debug, Clone)]
pub(super) struct Form {
    /// What it is.
    pub(super) name: &'static str,
    /// The text as it is written.
    pub(super) text: String,
    /// What must not be found anywhere.
    pub(super) secret: String,
}

const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const HEX: &str = "0123456789abcdef";
const ALNUM: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const BASE64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";

/// Characters that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn text(&mut self, alphabet: &str, length: usize) -> String {
        let alphabet = alphabet.as_bytes();
        let mut text = String::new();
        for _ in 0..length {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            let at = (self.0 >> 11) as usize % alphabet.len();
            text.push(char::from(alphabet[at]));
        }
        // Some shapes want a digit and both cases; all of these alphabets have these three.
        let three = if alphabet.contains(&b'a') {
            "d4a"
        } else {
            "D4A"
        };
        text.replace_range(..3, three);
        text
    }
}

/// How a form is put together. `@` stands for the secret. The two halves of a sign are joined here, so that the whole
/// sign is not in the source.
struct Made(&'static str, [&'static str; 2], &'static str, usize);

/// Tokens that are known by how they begin: name, halves of the sign, alphabet, how many characters follow.
const TOKENS: [Made; 52] = [
    Made("GitHub personal token", ["gh", "p_"], ALNUM, 36),
    Made("GitHub app token", ["gh", "s_"], ALNUM, 36),
    Made("GitHub fine-grained token", ["github", "_pat_"], ALNUM, 82),
    Made("GitLab personal token", ["gl", "pat-"], URL64, 20),
    Made("GitLab deploy token", ["gl", "dt-"], URL64, 20),
    Made("GitLab runner token", ["gl", "rt-"], URL64, 20),
    Made("GitLab trigger token", ["gl", "ptt-"], HEX, 40),
    Made("GitLab job token", ["gl", "cbt-"], URL64, 24),
    Made("Stripe live key", ["sk_", "live_"], ALNUM, 24),
    Made("Stripe test key", ["sk_", "test_"], ALNUM, 24),
    Made("Stripe restricted key", ["rk_", "live_"], ALNUM, 24),
    Made("Stripe hook secret", ["wh", "sec_"], ALNUM, 32),
    Made("npm token", ["np", "m_"], ALNUM, 36),
    Made("PyPI token", ["py", "pi-AgEIcHlwaS5vcmc"], URL64, 70),
    Made("Hugging Face token", ["h", "f_"], ALNUM, 34),
    Made(
        "SendGrid key",
        ["S", "G.d4aXXXXXXXXXXXXXXXXXXX."],
        URL64,
        43,
    ),
    Made("Slack bot token", ["xo", "xb-1234567890-"], ALNUM, 24),
    Made("Slack user token", ["xo", "xp-1234567890-"], ALNUM, 32),
    Made("Slack app token", ["xa", "pp-1-A012BCD-345-"], HEX, 64),
    Made("Slack rotation token", ["xo", "xe-1-"], ALNUM, 60),
    Made("Vault service token", ["hv", "s."], URL64, 95),
    Made("Vault batch token", ["hv", "b."], URL64, 140),
    Made("DigitalOcean token", ["do", "p_v1_"], HEX, 64),
    Made("DigitalOcean OAuth token", ["do", "o_v1_"], HEX, 64),
    Made("DigitalOcean refresh token", ["do", "r_v1_"], HEX, 64),
    Made("Google API key", ["AI", "za"], URL64, 35),
    Made("Google OAuth secret", ["GOC", "SPX-"], URL64, 28),
    Made("Google access token", ["ya", "29."], URL64, 60),
    Made("AWS key id", ["AK", "IA"], UPPER, 16),
    Made("AWS temporary key id", ["AS", "IA"], UPPER, 16),
    Made("Alibaba key id", ["LT", "AI"], ALNUM, 20),
    Made("OpenAI key", ["sk", "-proj-"], URL64, 64),
    Made("Anthropic key", ["sk", "-ant-api03-"], URL64, 93),
    Made("Groq key", ["gs", "k_"], ALNUM, 52),
    Made("Replicate token", ["r", "8_"], ALNUM, 37),
    Made("xAI key", ["xa", "i-"], ALNUM, 80),
    Made("Shopify token", ["shp", "at_"], HEX, 32),
    Made("Square token", ["sq0", "atp-"], URL64, 22),
    Made("Linear key", ["lin_", "api_"], ALNUM, 40),
    Made("Notion token", ["nt", "n_"], ALNUM, 46),
    Made("Figma token", ["fi", "gd_"], URL64, 40),
    Made("Atlassian token", ["ATA", "TT3xFfGF0"], URL64, 180),
    Made("Databricks token", ["da", "pi"], HEX, 32),
    Made("Grafana token", ["gl", "sa_"], ALNUM, 41),
    Made("New Relic key", ["NR", "AK-"], UPPER, 27),
    Made("Docker Hub token", ["dckr", "_pat_"], URL64, 27),
    Made("Postman key", ["PM", "AK-"], HEX, 59),
    Made("Pulumi token", ["pu", "l-"], HEX, 40),
    Made("RubyGems key", ["rubygems", "_"], HEX, 48),
    Made("Sentry token", ["snt", "rys_"], BASE64, 80),
    Made("Tailscale key", ["tsk", "ey-auth-"], ALNUM, 40),
    Made("age key", ["AGE-SECRET", "-KEY-1"], UPPER, 58),
];

/// Secrets that are known by what stands beside them: name, text before and behind, alphabet, length.
const NAMED: [Made; 46] = [
    Made(
        "AWS secret key",
        ["aws_secret_access_key = ", ""],
        BASE64,
        40,
    ),
    Made(
        "AWS secret in the environment",
        ["AWS_SECRET_ACCESS_KEY=", ""],
        BASE64,
        40,
    ),
    Made(
        "AWS secret in JSON style",
        ["SecretAccessKey: ", ""],
        BASE64,
        40,
    ),
    Made("AWS session token", ["aws_session_token=", ""], BASE64, 200),
    Made(
        "Azure storage key",
        [
            "DefaultEndpointsProtocol=https;AccountName=x;AccountKey=",
            ";EndpointSuffix=core.windows.net",
        ],
        BASE64,
        86,
    ),
    Made(
        "Azure shared access signature",
        [
            "https://x.blob.core.windows.net/c?sv=2022-11-02&ss=b&sig=",
            "&se=2030",
        ],
        ALNUM,
        43,
    ),
    Made(
        "Azure service bus",
        [
            "Endpoint=sb://x.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey=",
            "",
        ],
        BASE64,
        43,
    ),
    Made(
        "Azure client secret",
        ["AZURE_CLIENT_SECRET=", ""],
        URL64,
        37,
    ),
    Made(
        "database URL of PostgreSQL",
        ["postgres://app:", "@db.example:5432/app"],
        ALNUM,
        16,
    ),
    Made(
        "database URL of MySQL",
        ["mysql://root:", "@127.0.0.1/app"],
        ALNUM,
        16,
    ),
    Made(
        "database URL of MongoDB",
        [
            "mongodb+srv://app:",
            "@cluster0.example/app?retryWrites=true",
        ],
        ALNUM,
        16,
    ),
    Made(
        "database URL of Redis",
        ["redis://:", "@cache.example:6379/0"],
        ALNUM,
        16,
    ),
    Made("broker URL", ["amqp://guest:", "@mq.example//"], ALNUM, 16),
    Made(
        "basic-auth URL",
        ["https://admin:", "@intra.example/path"],
        ALNUM,
        16,
    ),
    Made(
        "token in a git URL",
        ["https://", "@git.example/o/r.git"],
        ALNUM,
        40,
    ),
    Made(
        "Go database source",
        ["app:", "@tcp(db.example:3306)/app"],
        ALNUM,
        16,
    ),
    Made(
        "database keywords",
        ["Server=db;Database=x;Uid=sa;Pwd=", ";Encrypt=yes"],
        ALNUM,
        16,
    ),
    Made(
        "Basic authorization",
        ["Authorization: Basic ", ""],
        ALNUM,
        24,
    ),
    Made(
        "Bearer authorization",
        ["Authorization: Bearer ", ""],
        ALNUM,
        32,
    ),
    Made(
        "other authorization",
        ["Authorization: token ", ""],
        ALNUM,
        32,
    ),
    Made(
        "proxy authorization",
        ["Proxy-Authorization: Basic ", ""],
        ALNUM,
        24,
    ),
    Made("API key header", ["X-Api-Key: ", ""], ALNUM, 32),
    Made("Vault header", ["X-Vault-Token: ", ""], ALNUM, 26),
    Made(
        "cookie",
        ["Cookie: theme=dark; session=", "; lang=en"],
        ALNUM,
        32,
    ),
    Made(
        "cookie that is set",
        ["Set-Cookie: sid=", "; Path=/; HttpOnly"],
        ALNUM,
        32,
    ),
    Made(
        "npm configuration",
        ["//registry.example/:_authToken=", ""],
        ALNUM,
        36,
    ),
    Made(
        "Slack hook",
        ["https://hooks.slack.com/services/T0AAAAAAA/B0AAAAAAA/", ""],
        ALNUM,
        24,
    ),
    Made(
        "Discord hook",
        ["https://discord.com/api/webhooks/123456789012345678/", ""],
        URL64,
        68,
    ),
    Made(
        "Telegram bot",
        ["https://api.telegram.org/bot123456789:AA", "/getMe"],
        URL64,
        33,
    ),
    Made("Telegram token", ["123456789:AA", ""], URL64, 33),
    Made(
        "Discord bot token by its name",
        ["DISCORD_BOT = ", ""],
        URL64,
        59,
    ),
    Made("Datadog key by its name", ["datadog_key: ", ""], HEX, 32),
    Made("Twilio token", ["TWILIO_AUTH_TOKEN=", ""], HEX, 32),
    Made("kube client key", ["client-key-data: ", ""], BASE64, 120),
    Made(
        "kube token",
        ["users: [{name: a, user: {token: ", "}}]"],
        URL64,
        60,
    ),
    Made(
        "Docker login",
        ["auths: {registry.example: {\"auth\": \"", "\"}}"],
        ALNUM,
        32,
    ),
    Made("password assignment", ["password=", ""], ALNUM, 12),
    Made("password under a short name", ["pwd=", ""], ALNUM, 12),
    Made(
        "PostgreSQL password",
        ["PGPASSWORD=", " psql -h db"],
        ALNUM,
        12,
    ),
    Made("passphrase", ["passphrase: ", ""], ALNUM, 18),
    Made(
        "password option",
        ["tool --password ", " --verbose"],
        ALNUM,
        12,
    ),
    Made(
        "user option of curl",
        ["curl -u admin:", " https://intra.example"],
        ALNUM,
        12,
    ),
    Made(
        "password of netrc",
        ["machine intra.example login me password ", ""],
        ALNUM,
        12,
    ),
    Made(
        "password option of sshpass",
        ["sshpass -p ", " ssh host"],
        ALNUM,
        12,
    ),
    Made("password element", ["<password>", "</password>"], ALNUM, 12),
    Made("Django secret", ["SECRET_KEY = ", ""], ALNUM, 50),
];

/// Keys in the form of PEM and its relatives.
const BLOCKS: [(&str, &str, &str); 4] = [
    ("RSA key", "RSA PRIV", "ATE KEY"),
    ("PKCS 8 key", "PRIV", "ATE KEY"),
    ("OpenSSH key", "OPENSSH PRIV", "ATE KEY"),
    ("PGP key", "PGP PRIV", "ATE KEY BLOCK"),
];

/// Every form, in one line each unless the form itself has several.
pub(super) fn forms() -> Vec<Form> {
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    let mut all = Vec::new();
    for Made(name, [one, two], alphabet, length) in TOKENS {
        let secret = dice.text(alphabet, length);
        all.push(Form {
            name,
            text: format!("{one}{two}{secret}"),
            secret,
        });
    }
    for Made(name, [before, behind], alphabet, length) in NAMED {
        let secret = dice.text(alphabet, length);
        all.push(Form {
            name,
            text: format!("{before}{secret}{behind}"),
            secret,
        });
    }
    for (name, kind, rest) in BLOCKS {
        let lines = [dice.text(BASE64, 64), dice.text(BASE64, 40)];
        all.push(Form {
            name,
            text: format!(
                "-----BEGIN {kind}{rest}-----\n{}\n{}\n-----END {kind}{rest}-----",
                lines[0], lines[1]
            ),
            secret: lines[1].clone(),
        });
    }
    let jwt = dice.text(URL64, 43);
    all.push(Form {
        name: "JSON web token",
        text: format!("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.{jwt}"),
        secret: jwt,
    });
    all
}
