"""Forms of tokens, and lists of words: facts of services, most of them after the rules of gitleaks (NOTICE)."""

from __future__ import annotations

FORMS: dict[str, dict[str, str]] = {
    "cloud_key": {
        "AKIA ASIA ABIA ACCA": r"[A-Z0-9]{16}(?![A-Za-z0-9])",
        "AIza": r"[0-9A-Za-z_-]{35}",
        "ya29.": r"[0-9A-Za-z_-]{20,}",
        "GOCSPX-": r"[0-9A-Za-z_-]{20,}",
        "LTAI": r"[A-Za-z0-9]{16,26}(?![A-Za-z0-9])",
        "AKID": r"[A-Za-z0-9]{32}(?![A-Za-z0-9])",
        "AQVN": r"[A-Za-z0-9_-]{35,38}",
        "dop_v1_ doo_v1_ dor_v1_": r"[a-f0-9]{64}",
        "ABSK": r"[A-Za-z0-9+/]{109,}={0,2}",
        "bedrock-api-key-": r"[A-Za-z0-9+/=]{20,}",
        "ocid1.": r"(?:credential|secret|vaultsecret)[a-z0-9.]{20,}",
    },
    "access_token": {
        "ghp_ gho_ ghu_ ghs_ ghr_": r"[A-Za-z0-9]{30,}",
        "github_pat_": r"[A-Za-z0-9_]{22,}",
        "glpat- glptt- gldt- glrt- glsoat- glft- glimt- glagent- glcbt- glffct- gloas-": r"[A-Za-z0-9_.-]{20,}",
        "GR1348941": r"[A-Za-z0-9_-]{20,}",
        "ATATT3 ATCTT3 ATBB": r"[A-Za-z0-9_=-]{20,}",
        "ATSTT3": r"[A-Za-z0-9_=-]{20,}",
        "BBDC-": r"[A-Za-z0-9+/]{40,}",
        "xoxa- xoxb- xoxe- xoxo- xoxp- xoxr- xoxs- xoxc- xoxd-": r"[A-Za-z0-9%-]{10,}",
        "xoxe.xoxb- xoxe.xoxp-": r"[A-Za-z0-9-]{10,}",
        "xapp-": r"[0-9]-[A-Za-z0-9]+-[0-9]+-[A-Za-z0-9]{10,}",
        "xwfp-": r"[A-Za-z0-9-]{20,}",
        "sk_live_ sk_test_ rk_live_ rk_test_ sk_prod_ rk_prod_": r"[A-Za-z0-9]{16,}",
        "whsec_": r"[A-Za-z0-9+/=]{20,}",
        "sk-": r"(?:(?:proj|ant|svcacct|admin|or|lf)-[A-Za-z0-9_-]{20,}|[A-Za-z0-9]{32,})",
        "gsk_": r"[A-Za-z0-9]{40,}",
        "xai-": r"[A-Za-z0-9]{60,}",
        "pplx-": r"[A-Za-z0-9]{40,}",
        "r8_": r"[A-Za-z0-9]{37}",
        "hf_ api_org_": r"[A-Za-z0-9]{30,}",
        "npm_": r"[A-Za-z0-9]{36}",
        "pypi-AgE": r"[A-Za-z0-9_-]{50,}",
        "rubygems_": r"[a-f0-9]{48}",
        "CLOJARS_": r"[a-z0-9]{60}",
        "oy2": r"[a-z0-9]{43}(?![A-Za-z0-9])",
        "cio": r"[A-Za-z0-9]{32}(?![A-Za-z0-9])",
        "dckr_pat_ dckr_oat_": r"[A-Za-z0-9_-]{20,}",
        "SG.": r"[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{30,}",
        "xkeysib- xsmtpsib-": r"[a-f0-9]{64}-[A-Za-z0-9]{16}",
        "key-": r"[a-f0-9]{32}(?![A-Za-z0-9])",
        "hvs. hvb. hvr.": r"[A-Za-z0-9_-]{20,}",
        "dapi dkea dsapi": r"[a-f0-9]{32}(?:-[0-9])?",
        "shpat_ shpca_ shppa_ shpss_ shptka_ shpua_": r"[a-fA-F0-9]{32}",
        "sq0atp- sq0csp- sq0idp-": r"[A-Za-z0-9_-]{20,}",
        "EAAA": r"[A-Za-z0-9_-]{56,62}(?![A-Za-z0-9])",
        "EAAC EAAM EAAG": r"[A-Za-z0-9]{100,}",
        "access_token$": r"(?:production|sandbox)\$[0-9a-z]{16}\$[0-9a-f]{32}",
        "access-sandbox- access-production- access-development-": r"[0-9a-f-]{36}",
        "tfp_": r"[A-Za-z0-9_.=-]{40,}",
        "PMAK-": r"[a-f0-9]{24}-[a-f0-9]{34}",
        "PMAT-": r"[A-Z0-9]{26}",
        "NRAK- NRII- NRJS- NRRA-": r"[A-Za-z0-9-]{19,}",
        "lin_api_ lin_oauth_": r"[A-Za-z0-9]{32,}",
        "ntn_ secret_": r"[A-Za-z0-9]{43,50}(?![A-Za-z0-9])",
        "figd_ figo_": r"[A-Za-z0-9_-]{30,}",
        "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.": r"[A-Za-z0-9._-]{40,}",
        "dt0c01. dt0s01. dt0s16.": r"[A-Z0-9]{24}\.[A-Z0-9]{64}",
        "glsa_": r"[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}",
        "glc_": r"[A-Za-z0-9+/=]{32,}",
        "sntrys_": r"[A-Za-z0-9+/=_]{40,}",
        "sntryu_ sntrya_": r"[a-f0-9]{64}",
        "pul-": r"[a-f0-9]{40}",
        "pscale_tkn_ pscale_oauth_ pscale_pw_ pscale_otkn_": r"[A-Za-z0-9_=.-]{32,}",
        "rdme_": r"[a-z0-9]{70}",
        "rnd_": r"[A-Za-z0-9]{28,}",
        "fo1_": r"[A-Za-z0-9_-]{43}",
        "fm1a_ fm1r_ fm2_": r"[A-Za-z0-9+/]{80,}={0,3}",
        "HRKU-": r"[A-Za-z0-9_-]{36,}",
        "nfp_ nfc_ nfu_": r"[A-Za-z0-9]{36}",
        "vercel_ vcp_ vci_ vca_ vcr_ vck_": r"[A-Za-z0-9]{24,}",
        "sbp_": r"[a-f0-9]{40}",
        "sb_secret_": r"[A-Za-z0-9_-]{20,}",
        "tskey-": r"[a-z]+-[A-Za-z0-9]+-[A-Za-z0-9]{10,}",
        "phc_ phx_ phs_": r"[A-Za-z0-9]{40,}",
        "sgp_": r"(?:[a-f0-9]{16}_|local_)?[a-f0-9]{40}",
        "sha256~": r"[A-Za-z0-9_-]{43}",
        "AGE-SECRET-KEY-1": r"[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}",
        "A3-": r"[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}",
        "ops_eyJ": r"[A-Za-z0-9+/]{100,}={0,3}",
        "AKCp": r"[A-Za-z0-9]{69,}",
        "cmVmd": r"[A-Za-z0-9]{59}(?![A-Za-z0-9])",
        "EZAK EZTK": r"[A-Za-z0-9]{54}",
        "duffel_test_ duffel_live_ shippo_live_ shippo_test_": r"[A-Za-z0-9_=-]{40,}",
        "FLWSECK- FLWSECK_TEST-": r"[A-Za-z0-9]{12,}",
        "fio-u-": r"[A-Za-z0-9_=-]{64}",
        "pat-na1- pat-eu1-": r"[a-f0-9-]{36}",
        "pnu_ pnb_": r"[A-Za-z0-9]{36}",
        "pat.": r"[A-Za-z0-9_-]{22}\.[0-9a-f]{24}\.[A-Za-z0-9]{20}",
        "pk.eyJ sk.eyJ tk.eyJ": r"[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{20,}",
        "sm_aat_ sm_pat_ sm_sat_": r"[A-Za-z0-9]{16}",
        "tk-us-": r"[A-Za-z0-9_-]{48}",
        "v1.0-": r"[a-f0-9]{24}-[a-f0-9]{146}",
        "p8e- dnkey-": r"[A-Za-z0-9_=-]{26,}",
        "API-": r"[A-Z0-9]{26,36}(?![A-Za-z0-9])",
        "CFPAT-": r"[A-Za-z0-9_-]{43}",
        "jfrt@ jfac@": r"[A-Za-z0-9/_.-]{20,}",
        "nvapi-": r"[A-Za-z0-9_-]{40,}",
        "ory_at_ ory_st_ ory_pat_": r"[A-Za-z0-9_.-]{20,}",
        "ddp_ ddapp_": r"[A-Za-z0-9]{36}",
        "bkua_": r"[a-z0-9]{40}",
        "CCIPAT_ CCIPRJ_": r"[A-Za-z0-9]{20,}_[a-f0-9]{40}",
        "sl.": r"(?:u\.)?[A-Za-z0-9_=-]{100,}",
        "mfa.": r"[A-Za-z0-9_-]{80,}",
        "hooks.slack.com/services/ hooks.slack.com/workflows/ hooks.slack.com/triggers/": r"[A-Za-z0-9/_-]{20,}",
        "discord.com/api/webhooks/ discordapp.com/api/webhooks/": r"[0-9]{15,22}/[A-Za-z0-9_-]{40,}",
        "webhook.office.com/webhookb2/": r"[A-Za-z0-9@/_-]{60,}",
        "api.telegram.org/bot": r"[0-9]{6,12}:[A-Za-z0-9_-]{30,}",
    },
    "jwt": {
        "eyJ": r"[A-Za-z0-9_-]{8,4000}+(?:\.eyJ[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_-]*)?|(?:\.[A-Za-z0-9_-]{10,4000}+){4})"
    },
}
"""By kind: prefixes, separated by blanks, and a regular expression for what follows one of them."""

SERVICES = frozenset(
    """
    adafruit adobe airtable algolia alibaba asana auth0 beamer bitbucket bittrex cloudflare codecov cohere coinbase
    confluence confluent contentful datadog deepl deepseek discord droneci dropbox etsy fastly finicity finnhub
    flickr freshbooks gitter heroku intercom jira kraken kucoin launchdarkly linkedin mailchimp mailgun mapbox
    mattermost meraki messagebird mistral netlify newrelic nytimes okta openweather opsgenie pagerduty plaid
    pushover rapidapi sendbird sentry snyk sonarqube spotify squarespace sumologic telegram travisci twilio twitch
    twitter typeform yandex zendesk
    """.split()  # noqa: SIM905
)
"""Names of services whose keys have no form of their own: one beside a random value is what tells it."""
CLIENT_WORDS = (
    "mysql", "sshpass", "smbclient", "rpcclient", "net rpc", "net ads", "redis-cli", "ldap", "docker login", "echo",
    "htpasswd", "net use", "unzip", "7z ", "openssl", "sudo -S", "wifi:", "snmp-server", "radius", "tacacs",
)  # fmt: skip
"""What the patterns of `CLIENTS` begin with."""
CLIENTS = (
    r"mysql(?:dump|admin)?\b[^\n|;]{0,200}?[ \t]-p[\"']?",
    r"sshpass[ \t]+-p[ \t]*[\"']?",
    r"(?:smbclient|rpcclient|net (?:rpc|ads))\b[^\n|;]{0,200}?-U[ \t]*[\"']?[^\s%]{1,60}%",
    r"redis-cli\b[^\n|;]{0,200}?[ \t](?:-a|--pass)[ \t]+[\"']?",
    r"ldap(?:search|modify|add|whoami)\b[^\n|;]{0,300}?[ \t]-w[ \t]*[\"']?",
    r"docker login\b[^\n|;]{0,200}?[ \t]-p[ \t]*[\"']?",
    r"unzip\b[^\n|;]{0,100}?[ \t](?-i:-P)[ \t]*",
    r"7z[ \t][^\n|;]{0,100}?[ \t](?-i:-p)",
    r"openssl[ \t][^\n|;]{0,100}?[ \t](?-i:-k)[ \t]+",
    r"echo[ \t]+[\"']?\w+:(?=[^|\n]{1,100}\|[ \t]*(?:sudo )?chpasswd)",
    r"echo[ \t]+[\"']?(?=[^|\n]{1,100}\|[ \t]*sudo -S)",
    r"sudo -S[^\n|;<]{0,100}<<<[ \t]*[\"']?",
    r"htpasswd[ \t]+-\w*b\w*[ \t]+\S+[ \t]+\S+[ \t]+[\"']?",
    r"net use\b[^\n]{0,100}?/user:\S+[ \t]+",
    r"wifi:[^\n]{0,80}?P:",
    r"(?:snmp-server community|(?:radius|tacacs)(?:-server)?(?: host \S+)? key(?: [0-7])?) +(?=\S*[0-9])",
)
"""Commands and settings of devices up to the password that stands in them."""
PASSWORDS = (
    "kennwort", "contraseña", "mot de passe", "wachtwoord", "senha", "hasło", "heslo", "lösenord", "ароль",
)  # fmt: skip
"""Names of a password that do not begin with `pass`; the first letter of a Russian one has two forms."""
NO_VALUES = frozenset(
    """
    a an and any are argument arguments as ask asked at attribute auth authentication authorization available base64
    based basic be been being blank bool boolean but by bytes can cannot case changed changeme char check class
    clear code config const correct could crypt default defined delete dialog did disabled do does done dots double
    each either else empty enabled encrypted encryption enter entered entry env error example expired expires expiry
    failed failure false field fields file files find first flag float for format free from function get getpass
    given global got had has hash hashed have hidden how id if ignored in incorrect info input int integer internal
    into invalid is it its itself kerberos key known last ldap length less like list local login long manager mask
    masked match matched md5 me method missing mode more must my n/a name native need needed never new next nil no
    none not nothing now null number object of off ok old on once one only option optional or other out owner pam
    parameter parse part plain plaintext policy present prompt protected protection provided public random raw read
    redacted reject remove request required reset return returned same secret see self sent server session set
    should shown simple size so some sort space stars static status stdin storage store stored str string struct
    success such switch system tbd template test tested text than that the their then there these they this through
    to todo token tokens true trust type types undefined unknown unset unsigned until up update use used user
    username using utf8 valid validation value values var varchar variable verified via void was we weak were what
    when where whether which while who will with within without word words would wrong x yes you your
    """.split()  # noqa: SIM905
)
"""Words that stand where a password may stand."""
FILES = frozenset(
    """
    bmp bz2 conf css csv device diff dll exe gif gz html ico jpeg jpg js json log mount o patch path pdf php png
    scope service slice so socket svg swap tar target tgz timer tmp toml ts txt webp xml xz yaml yml zip
    """.split()  # noqa: SIM905
)
"""Ends of names of files and units, which are no domains."""
IBANS = {
    word[:2]: int(word[2:])
    for word in """
    AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DK18 DO28 EE20 EG29 ES24 FI18
    FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20
    LU20 LV21 MC27 MD24 ME22 MK19 MR27 MT31 MU30 NL18 NO15 PK24 PL28 PS29 PT25 QA29 RO24 RS22 SA24 SE24 SI19 SK24
    SM27 TN24 TR26 UA29 VA22 VG24 XK20
    """.split()  # noqa: SIM905
}
"""Countries and how many characters the number of an account has there (ISO 13616)."""
