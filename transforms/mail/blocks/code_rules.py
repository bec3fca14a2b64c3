"""Rules: what lines of diffs, code, logs, sessions and tables look like."""

from __future__ import annotations

from transforms.mail.blocks.lines import Rule

_WEEKDAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"

# Diffs
HUNK = r"^@@ -\d+(?:,(?P<old>\d{1,9}))? \+\d+(?:,(?P<new>\d{1,9}))? @@"
DIFF = Rule(
    r"diff (?:-|a/|\w)|Index: \S+|index [0-9a-f]{4,}|--- (?:a/|/dev/null|\S+\t|\S+[./]\S* +\S)|"
    r"--- [\w./-]+/[\w.-]+$|\+\+\+ (?:b/|\S)|@@ -|@@@ |RCS file: |retrieving revision|Binary files? |"
    r"(?:new|deleted) file mode |old mode |new mode |(?:dis)?similarity index |(?:rename|copy) (?:from|to) |"
    r"GIT binary patch|\*{15}|\*\*\* [\w./-]+(?:,\d+ \*{4}|\s+(?:"
    + _WEEKDAY
    + r"|\d{4}[-/]))|--- \d+,\d+ ----|"
    r"\*\*\* \d+,\d+ \*{4}|(?:create|delete) mode \d{6}|\\ No newline at end|"
    r"(?:Modified|Added|Deleted): \S+/\S+$",
    r"di In in -- ++ @@ == RC re Bi ne de ol si co GI ** cr \· Mo Ad De",
)
DIFFSTAT = Rule(
    r"\S[^|]*\|  *(?:\d+ [+-]*|Bin(?: .*)?|\d+ \+*-*|\d+)$|\d+ files? changed|rename .*\(\d+%\)|"
    r"(?:create|delete) mode \d{6}"
)
MONTICELLO = Rule(
    r"Item was (?:changed|added|removed|moved)|(?:[+-] )?-{5} (?:Method|Class): |={15} Diff against",
    "It -- +· -· ==",
)
"""What Smalltalk's tool for versions writes above a change."""
DOUBLE_RULE = Rule(r"={8,}$", "==")
SHORTLOG = Rule(r"[A-Z].+ \(\d+\):$")
CONTEXT_HUNK = Rule(r"\*{15}|\*\*\* \d+(?:,\d+)? \*{4}|--- \d+(?:,\d+)? ----", "** --")
BINARY_PATCH = Rule(r"GIT binary patch", "GI")
BINARY_LINE = Rule(r"(?:literal|delta) \d+|[A-Za-z][!-~]{5,}$")

# What code, logs and sessions look like, by the bytes that lines of that shape begin with.
CODE_SIGNS = Rule(
    r"#[ \t]*(?:include|define|ifdef|ifndef|endif|undef|pragma)\b|/\*|\*/|//|\} ?(?:else|while|catch|;)|"
    r"[,`]-{4}|<[/!?]?[A-Za-z][A-Za-z0-9_:.-]*(?:/?>| [^<>:@]*/?>| [A-Za-z0-9_:-]+=)|"
    r"\[[A-Za-z0-9_][A-Za-z0-9_ .:-]{0,20}\] {1,4}\S|[-=]{2,}\+[-=+]+|\+[-=]{2,}|\|.*\|$|->  ?[A-Za-z0-9_]|"
    r"\([0-9]+ rows?\)|\.\.\. [0-9]+ more|\[ *[0-9]+\.[0-9]{3,}\]|\[<[0-9a-f]+>\]|\^[ \t~]*$|"
    # LaTeX, Lisp, Perl and PHP variables, Ruby and Python decorators, Smalltalk, Erlang, tags of logs
    r"\\(?:begin|end|documentclass|usepackage|newcommand|def|section|label)\b|\((?:def[a-z]*|let\*?|setq|require|lambda|if|cond|"
    r"use-package|add-to-list|global-set-key|interactive|progn|ns|import) [^ ]|\$[A-Za-z_]\w*(?:->|\[|\{| ?[-+.*/|]?= ?\S)|"
    r"@[A-Za-z_]\w*(?: ?=|\(|$)|<\?(?:php|xml)|!\w+ (?:class )?methodsFor:|-(?:module|export|include|define|record)\(|"
    r"\[(?:INFO|ERROR|WARN(?:ING)?|DEBUG|TRACE|FATAL|NOTICE|error|warn|info|notice|debug|exec|javac|java|junit)\]|"
    r"\[(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) [A-Z][a-z]{2} +\d|\[\d{4}[-/]\d\d[-/]\d\d|\[\d+\] +(?:[-+\d\"]|TRUE|FALSE|NA)|"
    r"\[\] in [A-Z]|==\d{2,6}==|--\d{2,6}--|\(gdb\)|<[0-9]{1,2}>\[|"
    r"! (?:LaTeX|Undefined|Missing|Package)|\+ (?:\w+ |/)\S*[/=-]|"
    r"\*\*\* (?:Error|ERROR|glibc|Warning|WARNING)\b|:[a-z-]+ [^ ]+$|<<[A-Z]{3,}|%%? [a-z]+ |\|(?: \w+)+ \|$|"
    r"make(?: (?:[\w-]+config|install|clean|distclean|all|test|check|depend|world|modules\w*))?$|"
    r"checking (?:for|whether|if) .*\.\.\.|"
    r"[$%] [A-Za-z0-9_]|#[0-9]+ +(?:0x|[A-Za-z0-9_]+ \()|[=\-(*'\"^!][#>] |# [A-Za-z0-9_][A-Za-z0-9_./-]* |"
    r"\[[A-Za-z0-9_]+@[A-Za-z0-9_.-]+[ :~][^ ]*\]?[$#] |[{}]$|[+-] ?\t|[+-] {2,}\S|[+-][#}{/*]|[+-]$",
    "# / * } , ` < [ - = + | ( . ^ $ % { \" ' ! \\ @ : ma ch",
)
REFERENCE = Rule(r"\[\w{1,4}\]:?[ \t]+(?:https?:|ftp:|<http|www[.])", "[")
CODE_WORDS = Rule(
    # statements, declarations
    r"(?:if|for|while|switch|foreach|elif|elsif) ?\(.*[){;]|else\b ?[{:]?$|return\b[^.]*;|"
    r"(?:static|struct|const|unsigned|typedef|enum|extern|public|private|protected|virtual|inline)\b.*[;{(,)=]$|"
    r"(?:void|int|char|bool|long|float|double|size_t)[ *]+[A-Za-z0-9_]+[^.]*[;{(,)=]$|"
    r"(?:def|class) [A-Za-z0-9_]+.*:$|from [A-Za-z0-9_.]+ import |import [A-Za-z0-9_.]+;?$|"
    # SQL and what a database server says
    r"(?:SELECT|INSERT INTO|UPDATE|DELETE FROM|CREATE|DROP|ALTER|EXPLAIN|ORDER BY|GROUP BY|VALUES ?\(|"
    r"WHERE|BEGIN;|COMMIT;) ?[A-Za-z0-9_*(]|QUERY PLAN|Total runtime: |"
    r"(?:select|insert into|delete from|create (?:table|index|function|unique|view)|drop table|alter table|"
    r"explain|grant) .*[;,(*]|"
    r"(?:NOTICE|ERROR|WARNING|LOG|DEBUG|FATAL|HINT|DETAIL|CONTEXT|STATEMENT|PANIC|INFO):  ?\S|"
    # stack traces, compilers
    r"at [A-Za-z0-9_.$<>/]+\(|Caused by: |Traceback \(most|File \".*\", line [0-9]+|"
    r"at [\w.$<>/]+ ?\(.*:\d+\)|(?:java|javax|org|com|net|sun)\.[a-z]\w*\.[\w.$]+(?:[:(]|$)|"
    r"(?:cd|ls|cat|mkdir|rm|cp|mv|chmod|chown|sudo|tar|mount|apt-get|yum|make|svn|git|cvs|ssh|"
    r"scp|wget|curl) (?:-|[~/.]|[A-Za-z0-9_-]+[/:]|install$|clean$|update$|upgrade$)|"
    # R, Python, Ruby, Smalltalk, shell, Perl, JavaScript
    r"(?:Error in|Error:|Warning messages?:|In addition: Warning|Call:|Coefficients:|Residuals:|Signif\. codes:)|"
    r"for \w+(?:, ?\w+)* in \S+:$|(?:if|elif|while) .*(?:[=!<>]=|[<>]|\w\(| in | is | not ).*:$|with \S+\(.*:$|"
    r"(?:try|finally|else|except [\w.]+):$|"
    r"self\.\w+|print ?[\"'(%]|raise [A-Z]\w+\(|assert \w+[(.= ]|(?:yield|return) [\w.]+[\[(.]|lambda \w+:|"
    r"Transcript (?:show|cr)|(?:(?:class|instance|classInstance)VariableNames|poolDictionaries|category|package|stamp): ?'|"
    r"(?:my|our|local) [$@%(]|use [\w:]+(?: qw.*| [\"'].*)?;|sub \w+ ?\{|(?:var|let|const) \w+ = |"
    r"function\b ?\w*\([^)]*\) ?\{?$|"
    r"(?:require|include|gem|source|group) ['\"]|puts |end$|module [A-Z]\w+$|"
    r"(?:export|set|setenv|alias|unset|echo|exec|eval) [A-Za-z_$\"'{-][\w$\"'{}-]*(?:=|$| \S+$)|(?:then|fi|do|done|esac)$|"
    # what tools say
    r"(?:checking|configure|dpkg|apt|E|W|N|npm|pip|rpm|yum|gpg|ssh|git|error|warning|fatal|fatal error|kernel|systemd\S*|"
    r"postfix/\w+|sshd|named|make|cc1|ld|ls|cp|rm|cd|bash|sh|zsh|perl|python\d?|java|tar|mount)(?:\[\d+\])?: \S|"
    # what a kernel says when it dies
    r"(?:BUG|WARNING): (?:[A-Z]{3,6}:|unable|kernel|soft|bad|at) ?\S|(?:Read|Write) of size \d+ at |"
    r"(?:Allocated|Freed|Last potentially related work creation|Second to last potentially related work creation)"
    r"(?: by task \d+)?:$|Call [Tt]race:$|CPU: \d+ |Hardware name: |Workqueue: |Modules linked in|page: refcount|"
    r"(?:raw|head|flags|page_type): ?(?:0x)?[0-9a-f]+[ (]|(?:RIP|RSP|R[A-DS][XIP]|R\d\d|CR\d|[CDEFGS]S|Code): ?[0-9a-f]{4}|"
    r"(?:Get|Hit|Ign|Reading|Building|Unpacking|Setting up|Preparing|Selecting):?\d* .*(?:\.\.\.|http)|"
    r"Program received signal|Breakpoint \d+,|Starting program:|Core was generated by|Segmentation fault|"
    r"(?:TRACE|INFO|DEBUG|WARN|WARNING|ERROR|FATAL|SEVERE|CRITICAL|Exception|Error)[ \t]*(?:[\[(:]|- |  +)\S|"
    r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) [A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d|"
    r"(?:eth|wlan|en|ppp|lo|br|tun)\d*\S* +(?:Link|IEEE|inet|no wireless)|inet6? (?:addr:)?\d|iptables -|/dev/\w+[ \t]|"
    r"(?:Module|Package|Filename|Filesystem|Device|Proto|PID|USER|Type|Name|Version|Status|Host|Port)[ \t]{2,}\S+[ \t]{2,}|"
    r"PS [A-Z]:\\|irb\(|mysql> |Overfull|Underfull|l\.\d+ |"
    r"make(?:\[[0-9]+\])?: |(?:gcc|cc|g\+\+|ld|ar) .*-|In file included|[bcdl-][rwxsStT-]{9}[ +.@]"
)
# Names of any kind and a sign behind them: these are two expressions since one takes twice the time of both.
ASSIGNMENTS = Rule(
    r"[a-z][A-Za-z0-9_]*[ \t]*\([^)]*\);?[ \t]*\{?$|[A-Za-z0-9_.>\[\]-]+[ \t]*[-+*/|&:]?=[ \t]*[^= ].*[;,]$|"
    r"[A-Za-z0-9_:.-]+=\"[^\"]*\"|(?:[A-Za-z_.][\w.]*|c|data\.frame)\(.*=.*[,)]$|[A-Za-z_]\w*\([^)]*\)[ \t]+= -?\w+|"
    # one value behind a sign of equality; calls of names with dots or underscores
    r"[A-Za-z][\w.\[\]-]*[ \t]*[:+?]?=[ \t]*(?:[\w./:@$%{}+*~,-]+|\"[^\"]*\"|'[^']*'|\(.*\)|\[.*\]|\{.*\})$|"
    r"[A-Za-z_][A-Za-z0-9_]*(?:[._][A-Za-z0-9_]+)+ ?\(.*[,;)]$"
)
NAMES = Rule(
    # prompts and names of Smalltalk, R, C++; lists of files, places in files, errors, symbols of a kernel
    r"[A-Za-z0-9_]+[=\-(*'\"^!][#>] |[A-Za-z0-9_.-]+> (?:select|insert|update|create|ls|cd|make|SELECT|\\)|"
    r"[A-Za-z0-9_]+@[A-Za-z0-9_.-]+[ :~][^ ]*[$#] |[a-z]+[#>] ?(?:show|exit|quit|help|print|run)\b|[A-Z]:\\(?:\w|>)|"
    r"[A-Za-z_.][\w.$\[\]\",]* ?<<?- ?[\w\"'(-]|[A-Za-z_]\w* := \S|\^ ?(?:[a-z]\w*( \w+:?)*\.$|(?:self|super)\b)|"
    r"(?:\[\] in )?[A-Z]\w*(?: class)?(?:\([A-Z]\w*(?: class)?\))?>>#?\w|[A-Z]\w* (?:sub|variableSub)class: ?#|"
    r"[A-Z]\w* new(?: \w+:.*)?\.$|[A-Za-z_]\w*(?:::\w+)+(?:\(|$)|(?:[A-Za-z0-9_+-]+\.(?:o|c|h|so|a|lo) ?){3,}|"
    r"[A-Za-z0-9_.$]+(?:Error|Exception)(?::|$)|[A-Za-z0-9_./+-]+\.(?:y|l|sh|S):[0-9]+[:,]|"
    r"[\w./+-]+\.(?:c|h|cc|cpp|hpp|cxx|java|py|pl|go|rs|rb|js|ts|php|tex|el|hs|ml|sml|scala|cs|m|f90|st|R|vhd|v)[:(]\d+|"
    r"[A-Za-z_][\w.]*\+0x[0-9a-f]+(?:/0x[0-9a-f]+)?\b|[A-Za-z_][\w.]* \S+/\S+\.[chS]:\d+(?: \[inline\])?$"
)
SMALLTALK = Rule(r"\[ ?:[a-z]\w* ?[:|]|(?:True|False|Nil|Empty|Do|do|collect|select): ?[\[(]", search=True)
STAMPS = Rule(
    # stamps of logs and dumps; base 64
    r"[A-Za-z0-9+/]{56,}={0,2}$|"
    r"(?:0x)?[0-9a-f]{4,16}:? (?:[0-9a-f]{2,8} ){3}|[0-9][0-9]:[0-9][0-9]:[0-9][0-9][.,][0-9]|"
    r"\d{4}[-/]\d\d[-/]\d\d[ T:]\d\d:\d\d|\d\d?[/.]\d\d?[/.]\d{2,4} \d\d?:\d\d:\d\d|[0-9a-f]{2}:[0-9a-f]{2}\.[0-9] |"
    r"\d{1,3}(?:\.\d{1,3}){3} - - \[|[A-Z][a-z]{2} +\d+,? (?:\d{4},? )?\d\d?:\d\d:\d\d"
)
WORDS = (CODE_WORDS, ASSIGNMENTS, NAMES, SMALLTALK, STAMPS)
WORD_PAIR = Rule(r"\S+\t\S+$")
TAIL = Rule(
    r"(?:[\w)\]\"'}>*][ \t]*;|[){=,][ \t]*\{|\{|\}[;,]?|&&|\|\||\\|\*/)[ \t]*(?:/[/*].*)?$|! !$", search=True
)
BULLET = Rule(r"(?:[-*+o]|•|\d+[.)])[ \t]+[A-Za-z]")
# Who signed or tested a patch: the author's words, however many signs they have.
TRAILER = Rule(
    r"[A-Z][a-z]+(?:-[a-z]+)*-by: |(?:Fixes|Closes|Link|[Cc]c|Cheers|Reported): ?\S",
    "Si Re Ac As Te Co Su Fi Cl Li Cc cc De Bi Di In",
)
PROMPT = Rule(r"[$#%] [a-z./~][A-Za-z0-9_./-]*(?: |$)|[A-Za-z0-9_]*[=\-(*'^!][#>] ")
