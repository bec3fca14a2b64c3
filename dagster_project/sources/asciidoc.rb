# Loaded by the program `asciidoctor`: converts documents to HTML until its standard input ends.
#
# A document follows a line with its bytes and the seconds of the processor that it may take. The answer is a line of
# JSON: `html` and the attributes of its header as `fields`, or a `fault`.
require "json"

# Admonitions are quotes, as Markdown has them, instead of tables with a column for the icon; footnotes are in parentheses.
class Readable < (Asciidoctor::Converter.for "html5")
  register_for "html5"

  def convert_admonition(node)
    title = node.title? ? "<p>#{node.title}</p>" : ""
    text = node.blocks? ? node.content : "<p>#{node.content}</p>"
    "<blockquote><p><strong>#{node.attr "textlabel"}</strong></p>#{title}#{text}</blockquote>"
  end

  def convert_inline_footnote(node)
    node.text ? " (#{node.text})" : ""
  end
end

# The times of the conversion are no part of a document. Links to other documents keep their ending.
TIMES = %w[docdate doctime docdatetime docyear localdate localtime localdatetime localyear]
ATTRIBUTES = TIMES.to_h { |name| [name, ""] }.merge(
  "relfilesuffix" => ".adoc", "showtitle" => "", "toc" => nil, "nofootnotes" => ""
)
OPTIONS = { safe: :secure, backend: "html5", attributes: ATTRIBUTES }.freeze
PARTS = /^(doctitle|first|middle|last|author(s|count|initials|_\d)|.+_\d+$|.*doctype)/
DEFAULTS = Asciidoctor.load("", OPTIONS).attributes

while (line = $stdin.gets)
  size, seconds = line.split.map(&:to_i)
  used = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID).ceil
  Process.setrlimit(:CPU, used + seconds, Process.getrlimit(:CPU)[1])
  begin
    document = Asciidoctor.load($stdin.read(size).force_encoding("UTF-8"), OPTIONS)
    fields = document.attributes.reject { |name, value| value.to_s.empty? || DEFAULTS[name] == value || PARTS.match?(name) }
    fields.merge!("title" => document.doctitle(sanitize: true), "author" => document.attributes["authors"])
    answer = { html: document.convert.gsub("&#8203;", ""), fields: fields.compact }
  rescue StandardError, SystemStackError, NoMemoryError => e
    answer = { fault: e.message }
  end
  $stdout.puts JSON.generate(answer)
  $stdout.flush
end
exit!
