// cu2cpp INPUT.cu > OUTPUT.cpp: turns a CUDA program into plain C++ for the CPU device.
//
// With the right headers a C++ compiler takes everything in a .cu but two things: the launch,
// `kernel<<<grid, block>>>(arguments)`, and the dynamic shared array,
// `extern __shared__ float s[];`. This program rewrites those two, adds to the declarations of
// other shared variables what they begin with, marks the variables of the device, and leaves every
// other byte alone. It never moves a newline, so one `#line` on top lets the compiler, the
// sanitizers and gdb name the .cu and its lines.
//
// It reads tokens: what stands in a comment or a string is no launch. It knows no types: whether a
// name is a template, say, it learns from the declaration, here or in a file that is included.
// What the CPU device cannot run is an error with its line, unless `#ifdef __CUDACC__` or an
// architecture macro keeps it from the CPU device. Such regions are left as they are.
//
// A file that is included by a name in quotes, and in which something is to be rewritten, takes the
// place of its `#include`.

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using std::string, std::string_view, std::vector;

constexpr string_view byte_order_mark = "\xEF\xBB\xBF";
constexpr size_t none = size_t(-1);
constexpr size_t deepest = 1000;   // nesting beyond any program's; it bounds time and stack

bool starts_with(string_view text, string_view start)
{
    return text.substr(0, start.size()) == start;
}

// ---- Sources and their tokens

enum class Kind { word, number, literal, sign, newline, end };

struct Token {
    Kind kind = Kind::end;
    string_view text;           // a part of the source, so that its address is its position
    size_t partner = none;      // of a bracket: the index of the one that belongs to it
    bool in_function = false;   // and not at the scope of a file, a namespace or a class
    bool in_class = false;      // and not in one of its functions
    bool on_device = false;     // in a function that only the device can call

    template <class... Texts>
    bool is(Texts... texts) const { return ((text == texts) || ...); }
    bool is_word() const { return kind == Kind::word; }
    bool opens() const { return is("(", "[", "{"); }
    bool closes() const { return is(")", "]", "}"); }
};

// What a declaration has said so far about the function that may follow.
struct Scope {
    bool global = false, device = false, host = false;
    bool in_function = false, on_device = false, in_class = false;
    bool names_class = false;

    Scope between_declarations() const
    {
        return {false, false, false, in_function, on_device, in_class};
    }
};

struct Bracket {
    size_t index;
    Scope scope;   // around it
};

// The text of a file without its directives, or the body of one macro.
struct Code {
    vector<Token> tokens;
    vector<string_view> parameters;
    bool is_macro = false;
    vector<Bracket> open;
    Scope scope;

    // Past either end lies a token without text.
    const Token& operator[](size_t i) const
    {
        static const Token nothing;
        return i < tokens.size() ? tokens[i] : nothing;
    }
    bool is_parameter(size_t i) const
    {
        return std::find(parameters.begin(), parameters.end(), (*this)[i].text) != parameters.end();
    }
};

struct Edit {
    size_t position, length;
    string text;
};

struct Include {
    size_t position, length;   // of the directive, without what follows the name
    string name;               // in quotes
    size_t file = none;        // which of the sources it is, if it is there
};

struct Source {
    const string path, text;
    Code code;
    std::deque<Code> macros;
    vector<Include> includes;
    vector<Edit> once;         // `#pragma once` is taken out where a file is put in another
    bool includes_driver = false;   // <cuda.h>
    bool changes = false;           // there is something to rewrite, here or in what it includes

    Source(string p, string t) : path(std::move(p)), text(std::move(t)) {}
    Source(const Source&) = delete;   // the tokens point into the text

    size_t position(const Token& token) const { return token.text.data() - text.data(); }
    size_t end(const Token& token) const { return position(token) + token.text.size(); }
    string line_number(const char* where) const
    {
        return std::to_string(1 + std::count(text.data(), where, '\n'));
    }
    // The place as compilers write it: `file:line:column: `.
    string place(const char* where) const
    {
        const char* line = where;
        while (line > text.data() && line[-1] != '\n')
            --line;
        if (line == text.data() && starts_with(text, byte_order_mark))
            line += byte_order_mark.size();
        return path + ":" + line_number(where) + ":" + std::to_string(where - line + 1) + ": ";
    }
    [[noreturn]] void fail(const char* where, const string& message) const
    {
        throw std::runtime_error(place(where) + "error: " + message);
    }
    [[noreturn]] void fail(const Token& token, const string& message) const
    {
        fail(token.text.data(), message);
    }
};

// ---- From characters to tokens

class Lexer {
public:
    explicit Lexer(const Source& s) : source(s), p(s.text.data()), end(p + s.text.size())
    {
        if (ahead(byte_order_mark))
            p += byte_order_mark.size();
    }

    Token read()
    {
        skip_blanks();
        if (p == end)
            return {};
        const char* const begin = p;
        const auto token = [&](Kind kind, const char* stop) {
            p = stop;
            return Token{kind, string_view(begin, stop - begin)};
        };
        if (*p == '\n')
            return token(Kind::newline, p + 1);
        if (*p == '"' || *p == '\'')
            return token(Kind::literal, literal_end());
        if (is_digit(*p) || (*p == '.' && is_digit(second()))) {
            while (p < end && (is_letter(*p) || *p == '.' || (*p == '\'' && is_letter(second()))
                               || ((*p == '+' || *p == '-') && std::strchr("eEpP", p[-1]))))
                ++p;
            return token(Kind::number, p);
        }
        if (is_letter(*p)) {
            while (p < end && is_letter(*p))
                ++p;
            const Token word = token(Kind::word, p);
            const bool raw = p < end && *p == '"' && word.is("R", "LR", "uR", "UR", "u8R");
            return raw ? token(Kind::literal, raw_string_end()) : word;
        }
        // Each `>` stays by itself: it may close a template.
        for (string_view sign :
             {"<<<", "...", "<<", "<=", ">=", "->", "::", "##", "&&", "||", "==", "!="})
            if (ahead(sign))
                return token(Kind::sign, p + sign.size());
        return token(Kind::sign, p + 1);
    }

private:
    const Source& source;
    const char* p;
    const char* const end;

    static bool is_digit(char c) { return c >= '0' && c <= '9'; }
    static bool is_letter(char c)
    {
        return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'
            || c == '$' || (c & 0x80);
    }
    static bool is_blank(char c) { return std::strchr(" \t\r\f\v", c); }   // a NUL is one as well
    char second() const { return end - p > 1 ? p[1] : '\n'; }
    bool ahead(string_view s) const { return starts_with(string_view(p, end - p), s); }

    // A backslash joins the next line to this one, as does one with blanks behind it.
    bool skip_splice()
    {
        const char* q = p;
        if (q == end || *q != '\\')
            return false;
        do
            ++q;
        while (q < end && is_blank(*q));
        if (q == end || *q != '\n')
            return false;
        p = q + 1;
        return true;
    }
    void skip_blanks()
    {
        while (p < end) {
            if (ahead("//")) {
                while (p < end && *p != '\n')
                    if (!skip_splice())
                        ++p;
            } else if (ahead("/*")) {
                const size_t stop = source.text.find("*/", p + 2 - source.text.data());
                if (stop == string::npos)
                    source.fail(p, "this comment is never closed");
                p = source.text.data() + stop + 2;
            } else if (is_blank(*p)) {
                ++p;
            } else if (!skip_splice()) {
                return;
            }
        }
    }
    // A quote without its partner ends with the line. It is an apostrophe in an `#error`, say.
    const char* literal_end()
    {
        const char quote = *p++;
        while (p < end && *p != quote && *p != '\n')
            if (!skip_splice())
                p += *p == '\\' && second() != '\n' ? 2 : 1;
        return p < end && *p == quote ? p + 1 : p;
    }
    const char* raw_string_end() const
    {
        const size_t quote = p - source.text.data();
        const size_t open = source.text.find('(', quote);
        if (open == string::npos || open - quote > 17)
            source.fail(p, "this raw string has no '('");
        const string close = ")" + source.text.substr(quote + 1, open - quote - 1) + "\"";
        const size_t stop = source.text.find(close, open);
        if (stop == string::npos)
            source.fail(p, "this raw string is never closed");
        return source.text.data() + stop + close.size();
    }
};

// ---- Conditions: what does the CPU device leave out?
//
// The macros of nvcc and of the architectures are not defined. Of all others we know nothing, so a
// condition is true, false or unknown, and only what is certainly false is left out.

using Value = std::optional<long long>;

// A name of the driver API. Others that begin with `cu` may be the program's own, or cuComplex.h's.
bool is_of_driver(const Token& token)
{
    for (string_view start :
         {"cuInit", "cuDriver", "cuDevice", "cuCtx", "cuModule", "cuLibrary", "cuKernel", "cuFunc",
          "cuLaunch", "cuMem", "cuStream", "cuEvent", "cuGraph", "cuPointer", "cuOccupancy",
          "cuGetError", "CUresult", "CUdevice", "CUcontext", "CUmodule", "CUlibrary", "CUkernel",
          "CUfunction", "CUstream", "CUevent"})
        if (starts_with(token.text, start))
            return true;
    return false;
}

bool is_gpu_macro(const Token& token)
{
    return starts_with(token.text, "__CUDACC_") || starts_with(token.text, "__CUDA_ARCH_")
        || token.is("__NVCC__");
}

class Condition {
public:
    explicit Condition(const Code& l) : line(l) {}

    Value value()
    {
        const Value result = binary(0);
        return understood && line[at].is("") ? result : Value();
    }

private:
    const Code& line;
    size_t at = 2;            // after `# if`
    size_t operands = 0;
    bool understood = true;   // false as soon as something else than the operators below occurs

    bool accept(string_view sign) { return line[at].is(sign) && ++at; }

    // The operators bind tighter from level to level.
    static int level_of(const Token& token)
    {
        return token.is("||") ? 0 : token.is("&&") ? 1 : token.is("==", "!=") ? 2
             : token.is("<", ">", "<=", ">=") ? 3 : 4;
    }
    Value binary(int level)
    {
        if (level == 4)
            return unary();
        Value left = binary(level + 1);
        while (level_of(line[at]) == level) {
            const Token& sign = line[at++];
            left = apply(sign, left, binary(level + 1));
        }
        return left;
    }
    static Value apply(const Token& sign, Value a, Value b)
    {
        if (sign.is("&&", "||")) {
            const bool decisive = sign.is("||");
            if ((a && bool(*a) == decisive) || (b && bool(*b) == decisive))
                return decisive;
            return a && b ? Value(!decisive) : Value();
        }
        if (!a || !b)
            return {};
        return sign.is("==") ? *a == *b : sign.is("!=") ? *a != *b : sign.is("<=") ? *a <= *b
             : sign.is(">=") ? *a >= *b : sign.is("<") ? *a < *b : *a > *b;
    }
    Value unary()
    {
        const Token& token = line[at++];
        if (++operands > deepest || token.is("")) {
            understood = false;
            return {};
        }
        if (token.is("!")) {
            const Value operand = unary();
            return operand ? Value(!*operand) : Value();
        }
        if (token.is("(")) {
            const Value inner = binary(0);
            understood &= accept(")");
            return inner;
        }
        if (token.is("defined")) {
            const bool bracket = accept("(");
            const Token& macro = line[at++];
            understood &= !bracket || accept(")");
            return is_gpu_macro(macro) ? Value(0) : Value();
        }
        if (token.kind == Kind::number) {
            const string digits(token.text);
            char* suffix;
            const long long number = std::strtoll(digits.c_str(), &suffix, 0);
            return std::strspn(suffix, "uUlL") == std::strlen(suffix) ? Value(number) : Value();
        }
        understood &= token.is_word();
        if (accept("("))   // __has_include(<name>), or a macro with arguments
            for (int open = 1; open > 0 && !line[at].is(""); ++at)
                open += line[at].is("(") - line[at].is(")");
        return is_gpu_macro(token) ? Value(0) : Value();
    }
};

// ---- From tokens to code
//
// The reader keeps the tokens that the CPU device may compile, sets macro bodies apart, pairs the
// brackets, and notes in what kind of function each token stands. Where more than one branch of an
// `#if` is kept, each starts with the brackets that were open before the first.

class Reader {
public:
    explicit Reader(Source& s) : source(s), lexer(s) {}

    void read()
    {
        bool line_starts = true;
        for (Token token = lexer.read(); token.kind != Kind::end; token = lexer.read()) {
            const bool newline = token.kind == Kind::newline;
            const bool hash = line_starts && token.is("#");
            if (hash)
                directive(token);
            else if (!newline && live)
                add(source.code, token);
            line_starts = newline || hash;
        }
    }

private:
    struct Conditional {
        bool live;      // around it
        bool decided;   // an earlier branch is certainly compiled
        vector<Bracket> open;
        Scope scope;
    };
    Source& source;
    Lexer lexer;
    bool live = true, noted = false;
    vector<Conditional> conditionals;

    void directive(const Token& hash)
    {
        Code line;
        for (Token token = hash; token.kind != Kind::end && token.kind != Kind::newline;
             token = lexer.read())
            line.tokens.push_back(token);
        const Token& name = line[1];
        if (name.is("if", "ifdef", "ifndef")) {
            if (conditionals.size() == deepest)
                source.fail(hash, "conditionals are nested too deeply");
            conditionals.push_back({live, false, source.code.open, source.code.scope});
        }
        if (name.is("if", "ifdef", "ifndef"))
            note_architecture(line);
        if (name.is("if", "elif"))
            branch(Condition(line).value());
        else if (name.is("ifdef", "elifdef"))
            branch(is_gpu_macro(line[2]) ? Value(0) : Value());
        else if (name.is("ifndef", "elifndef"))
            branch(is_gpu_macro(line[2]) ? Value(1) : Value());
        else if (name.is("else"))
            branch(1);
        else if (name.is("endif") && !conditionals.empty()) {
            live = conditionals.back().live;
            conditionals.pop_back();
        } else if (name.is("define") && live)
            define(line);
        else if (name.is("pragma") && line[2].is("once") && live)
            source.once.push_back(
                {source.position(hash), source.end(line[2]) - source.position(hash), ""});
        else if (name.is("include") && live) {
            if (starts_with(line[2].text, "\""))
                source.includes.push_back(
                    {source.position(hash), source.end(line[2]) - source.position(hash),
                     string(line[2].text.substr(1, line[2].text.rfind('"') - 1))});
            source.includes_driver |= line[2].is("\"cuda.h\"")
                || (line[2].is("<") && line[3].is("cuda") && line[4].is(".") && line[5].is("h"));
        }
    }
    // Nvcc compiles such a function twice, once for each side. Here there is one, for both.
    void note_architecture(const Code& line)
    {
        const auto is_architecture = [](const Token& token) { return token.is("__CUDA_ARCH__"); };
        if (noted || !live || !source.code.scope.in_function
            || std::none_of(line.tokens.begin(), line.tokens.end(), is_architecture))
            return;
        noted = true;
        std::cerr << source.place(line[0].text.data())
                  << "note: the CPU device does not define __CUDA_ARCH__, so kernels take the "
                     "branch of the host\n";
    }
    void branch(Value condition)
    {
        if (conditionals.empty())
            return;
        Conditional& c = conditionals.back();
        live = c.live && !c.decided && condition != 0;
        c.decided |= condition && *condition;
        if (live) {
            source.code.open = c.open;
            source.code.scope = c.scope;
        }
    }
    void define(const Code& line)
    {
        Code macro;
        macro.is_macro = macro.scope.in_function = true;
        size_t i = 3;
        // `#define F(x)` has a parameter, `#define F (x)` has none.
        if (line[3].is("(") && line[3].text.data() == line[2].text.data() + line[2].text.size())
            for (; !line[i].is("") && !line[i - 1].is(")"); ++i)
                if (line[i].is_word() || line[i].is("..."))
                    macro.parameters.push_back(line[i].is_word() ? line[i].text : "__VA_ARGS__");
        for (; !line[i].is(""); ++i)
            add(macro, line[i]);
        source.macros.push_back(std::move(macro));
    }
    void add(Code& code, Token token)
    {
        Scope& scope = code.scope;
        vector<Bracket>& open = code.open;
        const size_t index = code.tokens.size();
        token.in_function = scope.in_function;
        token.in_class = scope.in_class;
        token.on_device = scope.on_device;
        if (token.opens()) {
            if (open.size() == deepest)
                source.fail(token, "brackets are nested too deeply");
            open.push_back({index, scope});
            if (token.is("{")) {
                const bool device = scope.global || (scope.device && !scope.host);
                const bool function = device || code[index - 1].is(")") || scope.in_function;
                scope = {false, false, false, function, device || scope.on_device,
                         !function && (scope.names_class || scope.in_class)};
            }
        } else if (token.closes()) {
            const string_view opening = token.is(")") ? "(" : token.is("]") ? "[" : "{";
            if (!open.empty() && code[open.back().index].is(opening)) {
                token.partner = open.back().index;
                code.tokens[token.partner].partner = index;
                const Scope around = open.back().scope;
                open.pop_back();
                // A `}` ends a declaration, unless it ends the default argument of one.
                const bool argument = !open.empty() && !code[open.back().index].is("{");
                if (token.is("}"))
                    scope = argument ? open.back().scope : around.between_declarations();
            }
        } else if (token.is(";")) {
            scope = scope.between_declarations();
        } else {
            scope.global |= token.is("__global__");
            scope.device |= token.is("__device__");
            scope.host |= token.is("__host__");
            scope.names_class |= token.is("struct", "class", "union");
        }
        code.tokens.push_back(token);
    }
};

// ---- Kernels: which of them are more than a pointer?

struct Kernel {
    string parameters;         // as first declared
    bool needs_call = false;   // a template, overloaded, or with default arguments
};

using Kernels = std::map<string, Kernel, std::less<>>;

string spell(const Code& code, size_t begin, size_t end)
{
    string text;
    for (size_t i = begin; i < end; ++i)
        text.append(i > begin ? " " : "").append(code[i].text);
    return text;
}

// Reads the declaration whose `__global__` stands at `keyword`. The kernel's name is the last word
// before the parameters; `__launch_bounds__(256)` and `enable_if_t<(N > 2)>` may stand before it.
void declare_kernel(const Code& code, size_t keyword, Kernels& kernels)
{
    const auto ends = [&](size_t i) { return code[i].is(";", "{", "}", "__global__", ""); };
    size_t name = none, i = keyword + 1;
    for (int angles = 0; !ends(i); ++i) {
        angles += code[i].is("<") - code[i].is(">");
        if (code[i].is_word() && angles == 0)
            name = i;
        else if (code[i].is("(") && angles == 0 && !starts_with(code[name].text, "__"))
            break;
        else if (code[i].opens() && code[i].partner != none)
            i = code[i].partner;
    }
    if (name == none || !code[i].is("(") || code[i].partner == none)
        return;
    const size_t close = code[i].partner;
    bool needs_call = false;
    for (size_t k = i; k < close; ++k)
        needs_call |= code[k].is("=");
    for (size_t k = keyword; !ends(--k);)
        needs_call |= code[k].is("template");
    const string parameters = spell(code, i, close);
    Kernel& kernel = kernels.try_emplace(string(code[name].text), Kernel{parameters}).first->second;
    kernel.needs_call |= needs_call || kernel.parameters != parameters;
}

// ---- The rewriting

// In the body of a macro `kernel` and `on` may be the names of its parameters.
constexpr char prelude[] = "#define CPU_DEVICE_KERNEL ::cpu_device::kernel\n"
                           "#define CPU_DEVICE_ON .on\n";

class Rewriter {
public:
    Rewriter(const Source& s, const Kernels& k, bool c)
        : source(s), kernels(k), call_parameters(c) {}

    vector<Edit> edits()
    {
        rewrite(source.code);
        for (const Code& macro : source.macros)
            rewrite(macro);
        return std::move(result);
    }

private:
    const Source& source;
    const Kernels& kernels;
    const bool call_parameters;   // a macro's parameter may stand for a kernel that needs a call
    vector<Edit> result;

    void edit(const Token& token, size_t length, const string& text)
    {
        result.push_back({source.position(token), length, text});
    }
    void replace(const Token& token, const string& text) { edit(token, token.text.size(), text); }
    void append(const Token& token, const string& text)
    {
        result.push_back({source.end(token), 0, text});
    }

    void rewrite(const Code& code)
    {
        for (size_t i = 0; i < code.tokens.size(); ++i) {
            const Token& token = code[i];
            if (token.is("<<<") && !code[i - 1].is("operator"))
                launch(code, i);
            else if (token.is("__shared__"))
                shared_memory(code, i);
            else if (token.is("cudaLaunchKernel") && code[i + 1].is("("))
                leave_typed(code, i + 2);
            else if (token.is("__device__", "__constant__") && declares_variable(code, i))
                replace(token, "CPU_DEVICE_VARIABLE");
            else if (token.is("asm", "__asm", "__asm__"))
                refuse(token, "inline assembly outside #ifdef __CUDACC__");
            else if (token.is("__cluster_dims__"))
                refuse(token, "a cluster of blocks");
            else if (token.is("cudaTextureObject_t", "cudaCreateTextureObject", "tex1Dfetch"))
                refuse(token, "a texture");
            else if (token.is("cudaSurfaceObject_t", "cudaCreateSurfaceObject"))
                refuse(token, "a surface");
            else if (source.includes_driver && is_of_driver(token))
                refuse(token, "the driver API");
        }
    }
    [[noreturn]] void refuse(const Token& token, const string& what) const
    {
        source.fail(token, what + " is not supported on the CPU device");
    }

    // kernel<<<grid, block>>>(n)       ::cpu_device::kernel(kernel, "kernel").on(grid, block)(n)
    // kernel<32><<<grid, block>>>(n)   ::cpu_device::kernel([=](auto... cpu_device_args) {
    //                  kernel<32>(cpu_device_args...); }, "kernel<32>").on(grid, block)(n)
    //
    // The type of a pointer to the kernel names its parameters, so the arguments are converted at
    // the launch. Where the arguments are to select the function, as with a template, there is no
    // pointer yet and the kernel is called. It runs after the launch has returned, so the lambda
    // captures by value.
    void launch(const Code& code, size_t sign)
    {
        if (code[sign].on_device)
            refuse(code[sign], "a launch from a kernel");
        const size_t begin = kernel_begin(code, sign), end = configuration_end(code, sign);
        const bool call = needs_call(code, begin, sign);
        const string blank = code[begin - 1].is(":") ? " " : "";   // `case 1:` and `::` would join
        const string kernel = code.is_macro ? "CPU_DEVICE_KERNEL(" : "::cpu_device::kernel(";
        const string on = code.is_macro ? ") CPU_DEVICE_ON(" : ").on(";
        const string capture = code[sign].in_function ? "[=]" : "[]";
        edit(code[begin], 0, blank + kernel
                                 + (call ? capture + "(auto... cpu_device_args) { " : ""));
        replace(code[sign], (call ? "(cpu_device_args...); }, " : ", ") + quoted(code, begin, sign)
                                + on);
        edit(code[end], 3, ")");
    }

    // The expression that names the kernel, from its end to its beginning: `k`, `::a::k<3>`,
    // `table[i]`, `(*pointer)`, `object.member`, `name_##x` in a macro.
    size_t kernel_begin(const Code& code, size_t sign) const
    {
        size_t i = operand_begin(code, sign, sign);
        for (;;) {
            if (code[i - 1].is("template"))
                --i;
            if (code[i - 1].is("::") && !ends_operand(code, i - 2))
                return i - 1;
            if (code[i - 1].is("<"))   // `k<a < b>`: which `<` opens the template?
                source.fail(code[i - 1], "put the comparison that follows in parentheses");
            if (!code[i - 1].is("::", ".", "->"))
                return i;
            i = operand_begin(code, i - 1, sign);
        }
    }
    // A name with the brackets that follow it, or something in parentheses.
    size_t operand_begin(const Code& code, size_t end, size_t sign) const
    {
        size_t i = end;
        while (code[i - 1].closes() || code[i - 1].is(">")) {
            const size_t open = code[i - 1].is(">") ? angle(code, i - 1) : code[i - 1].partner;
            if (open == none)
                source.fail(code[i - 1], "this bracket has no partner");
            i = open;
            if (code[i].is("(") && !ends_operand(code, i - 1))
                return i;
        }
        if (!ends_operand(code, i - 1))
            source.fail(code[sign], "no kernel before '<<<'");
        for (--i; code[i - 1].is("##") && i >= 2;)
            i -= 2;
        return i;
    }
    // Not so the parentheses of `if (x) (*pointer)<<<...` or of a cast to void, nor `return`.
    static bool ends_operand(const Code& code, size_t i)
    {
        if (code[i].is(")") && code[i].partner != none)
            return !code[code[i].partner - 1].is("if", "while", "for", "switch", "constexpr")
                && !(code[i].partner + 2 == i && code[i - 1].is("void"));
        return code[i].is("]", ">")
            || (code[i].is_word() && !code[i].is("return", "else", "do", "if", "while", "for",
                                                 "switch", "case", "throw", "constexpr"));
    }
    // The `<` that the `>` at i closes.
    static size_t angle(const Code& code, size_t i)
    {
        for (size_t depth = 0;; --i) {
            depth += code[i].is(">");
            if (code[i].is("<") && --depth == 0)
                return i;
            if (code[i].closes() && code[i].partner != none)
                i = code[i].partner;
            else if (code[i].opens() || code[i].is(";", ""))
                return none;
        }
    }

    // The first of the three `>` that end the configuration; of a longer run, the last three. But
    // `>>>` can also close three templates: where that many are open, it is taken for that, if
    // another `>>>` is left for the launch.
    size_t configuration_end(const Code& code, size_t sign) const
    {
        size_t end = none, templates = 0;
        for (size_t i = sign + 1; !code[i].closes() && !code[i].is(";", "<<<", ""); ++i) {
            if (code[i].opens())
                i = closing(code, i);
            templates += code[i].is("<");
            size_t run = code[i].is(">");
            if (run == 0)
                continue;
            for (; code[i + 1].is(">") && code[i + 1].text.data() == code[i].text.data() + 1; ++i)
                ++run;
            const bool launches = code[i + 1].is("(") || (code.is_macro && code[i + 1].is(""));
            if (run >= 3 && launches && (end == none || templates < run))
                end = i - 2;
            if (run >= 3 && templates < run)
                break;
            if (run != 2 || templates >= 2)   // else a shift
                templates -= std::min(templates, run);
        }
        if (end == none)
            source.fail(code[sign], "'<<<' without '>>>(arguments)'");
        if (code[end + 3].is("("))
            closing(code, end + 3);
        return end;
    }
    size_t closing(const Code& code, size_t i) const
    {
        if (code[i].partner == none)
            source.fail(code[i], "this bracket is never closed");
        return code[i].partner;
    }

    bool needs_call(const Code& code, size_t begin, size_t sign) const
    {
        for (size_t i = begin; i < sign; ++i)
            if (code[i].is(".", "->"))
                return false;
        if (code.is_parameter(sign - 1) || code[sign - 2].is("##"))
            return call_parameters;
        const auto found = kernels.find(code[sign - 1].text);
        return code[sign - 1].is(">") || (found != kernels.end() && found->second.needs_call);
    }

    // The kernel's name as a string. In a macro each parameter gives way to what it stands for.
    static string quoted(const Code& code, size_t begin, size_t end)
    {
        string text = "\"";
        for (size_t i = begin; i < end; ++i) {
            if (code[i - 1].is(",") || (i > begin && code[i].is_word() && code[i - 1].is_word()))
                text += ' ';
            if (code.is_parameter(i))
                text.append("\" #").append(code[i].text).append(" \"");
            else if (!code[i].is("##"))
                for (char c : code[i].text)
                    text += c == '"' || c == '\\' ? string{'\\', c} : string{c};
        }
        return text + '"';
    }

    // cudaLaunchKernel((void*)kernel, …    cudaLaunchKernel(kernel, …
    //
    // The type of the pointer is all that tells what the arguments are.
    void leave_typed(const Code& code, size_t begin)
    {
        size_t i = begin + code[begin].is("reinterpret_cast");
        const bool named = i > begin;
        if (!code[i].is(named ? "<" : "("))
            return;
        for (++i; code[i].is("const", "void", "*"); ++i)
            ;
        if (!code[i].is(named ? ">" : ")") || !code[i - 1].is("*"))
            return;
        for (size_t k = begin; k <= i; ++k)
            replace(code[k], "");
    }

    // __device__ int x;                  CPU_DEVICE_VARIABLE int x;
    //
    // Does this word begin the one definition of a variable of a file or a namespace, which is not
    // const? One that the host may read, or that stands in a template, stays where it is.
    static bool declares_variable(const Code& code, size_t keyword)
    {
        if (code.is_macro || code[keyword].in_function || code[keyword].in_class)
            return false;
        const auto is_other = [&](size_t i) {
            return code[i].is("const", "constexpr", "constinit", "extern", "inline", "template",
                              "thread_local", "struct", "class", "union", "enum", "operator", "=",
                              "__managed__", "__shared__");
        };
        const auto is_same = [&](size_t i) { return code[i].is("__device__", "__constant__"); };
        for (size_t i = keyword - 1; !code[i].is(";", "{", "}", ""); --i)
            if (is_other(i) || is_same(i))
                return false;
        size_t words = 0, angles = 0;
        for (size_t i = keyword + 1; !code[i].is("(", "}", ""); ++i) {
            if (angles == 0 && code[i].is("=", ";", "[", "{"))
                return words >= 2 || (words == 1 && code[keyword - 1].is_word());
            if (is_other(i))
                return false;
            if (code[i].is("alignas", "__align__", "__attribute__", "decltype")) {
                words += code[i].is("decltype");
                if (code[++i].partner == none)
                    return false;
                i = code[i].partner;
            } else if (code[i].is("<")) {
                ++angles;
            } else if (code[i].is(">")) {
                angles -= angles > 0;
            } else {
                words += angles == 0 && code[i].is_word() && !is_same(i);
            }
        }
        return false;
    }

    // extern __shared__ float s[];       float *const s = static_cast<float *>(
    //                                        ::cpu_device::dynamic_shared());
    // extern __shared__ float s[][32];   float (*const s)[32] = static_cast<float (*)[32]>(...
    //
    // At file scope it becomes an object that turns into that pointer wherever it is used. The
    // macro `__shared__` takes care of all other arrays, but C++ wants `alignas` before what it
    // stands for, and `static` once.
    void shared_memory(const Code& code, size_t keyword)
    {
        const auto ends = [&](size_t i) { return code[i].is(";", "{", "}", ""); };
        size_t begin = code[keyword + 1].is("extern") ? keyword : none;
        for (size_t i = keyword - 1; !ends(i) && !code[i].is("__shared__"); --i)
            if (code[i].is("extern"))
                begin = i;
        if (begin == none) {
            if (code[keyword + 1].is("alignas") && code[keyword + 2].partner != none) {
                replace(code[keyword], "");
                replace(code[code[keyword + 2].partner], ") __shared__");
            }
            for (size_t i : {keyword - 1, keyword + 1})
                if (code[i].is("static"))
                    replace(code[i], "");
            begin_with_garbage(code, keyword);
            return;
        }

        vector<string_view> words;   // of the element's type, and the name
        size_t open = begin;         // the '[' after the name
        for (; !ends(open) && !code[open].is("["); ++open)
            if (code[open].is("alignas", "__align__", "__attribute__"))
                open = closing(code, open + 1);
            else if (!code[open].is("extern", "__shared__"))
                words.push_back(code[open].text);
        size_t last = open + 1;      // the last ']'
        while (code[last + 1].is("[") && code[last + 1].partner != none)
            last = code[last + 1].partner;
        if (words.size() < 2 || !code[open - 1].is_word() || !code[open + 1].is("]")
            || !ends(last + 1))
            source.fail(code[keyword],
                        "dynamic shared memory is declared as `extern __shared__ T name[];`");

        const string name(words.back()), bounds = spell(code, open + 2, last + 1);
        words.pop_back();
        string type;
        for (string_view word : words)
            type.append(word).append(" ");
        const auto pointer = [&](const string& declarator) {
            return bounds.empty() ? declarator : "(" + declarator + ")" + bounds;
        };
        replace(code[begin], !code[keyword].in_function
            ? "constexpr ::cpu_device::dynamic_shared_view<" + type + bounds + "> " + name + "{}"
            : type + pointer("*const " + name) + " = static_cast<" + type + pointer("*")
                  + ">(::cpu_device::dynamic_shared())");
        for (size_t i = begin + 1; i <= last; ++i)
            replace(code[i], "");
    }

    // __shared__ float a[8], b;        __shared__ float a[8], b; CPU_DEVICE_SHARED(a, b);
    void begin_with_garbage(const Code& code, size_t keyword)
    {
        const auto [names, end] = declared(code, keyword);
        if (names.empty())
            return;
        string list;
        for (const string& name : names)
            list += (list.empty() ? "" : ", ") + name;
        append(code[end - 1], code[keyword].in_function
            ? "; CPU_DEVICE_SHARED(" + list + ")"
            : "; CPU_DEVICE_SHARED_OF_FILE(" + names[0] + ", " + list + ")");
    }

    // The names that a declaration declares, and where it ends: at its `;`, or with the macro. No
    // names where it does not tell them, as in the macro `#define BOTH(type, rest) __shared__ type
    // rest`, whose `rest` may be `a[3], b`.
    static std::pair<vector<string>, size_t> declared(const Code& code, size_t keyword)
    {
        const std::pair<vector<string>, size_t> unknown;
        vector<string> names;
        // `float __shared__ a;` has its type before the word.
        bool typed = code[keyword - 1].is_word() && !code[keyword - 1].is("static", "volatile");
        size_t name = none, after = none, angles = 0;
        bool complete = false;   // the name is known: what follows is its size or its value
        for (size_t i = keyword + 1;; ++i) {
            const Token& token = code[i];
            const bool ends = token.is(";") || (token.is("") && code.is_macro);
            if (ends || (token.is(",") && angles == 0)) {
                const bool sized = code[after].is("[", ")");
                if (!typed || name == none || angles > 0 || code[after].is("(")
                    || (code.is_parameter(after - 1) && !sized))
                    return unknown;
                names.push_back(spell(code, name, after));
                if (ends)
                    return {names, i};
                name = none;
                complete = false;
            } else if (token.is("alignas", "__align__", "__attribute__", "decltype")) {
                typed |= token.is("decltype");
                if (code[++i].partner == none)
                    return unknown;
                i = code[i].partner;
            } else if (token.opens()) {
                if (token.partner == none)
                    return unknown;
                if (token.is("(") && code[i + 1].is("*") && angles == 0 && !complete) {
                    // `(*a)[3]`: the name stands inside.
                    typed |= name != none;
                    for (name = i + 2; code[name].is("*", "const", "volatile");)
                        ++name;
                    after = name + 1;
                    complete = true;
                    if (!code[name].is_word() || !code[after].is(")", "["))
                        return unknown;
                }
                complete |= token.is("[") && name != none && angles == 0;
                i = token.partner;
            } else if (token.closes() || token.is("__shared__", "")) {
                return unknown;
            } else if (token.is("=")) {
                complete = true;
            } else if (token.is("<") || token.is(">")) {
                angles += token.is("<") ? 1 : angles > 0 ? -1 : 0;
            } else if (token.is_word() && angles == 0 && !complete) {
                if (!code[i - 1].is("##")) {
                    typed |= name != none;
                    name = i;
                }
                after = i + 1;
            }
        }
    }
};

// ---- Files

string read_file(const std::filesystem::path& path)
{
    const bool directory = std::filesystem::is_directory(path);
    std::ifstream file(path, std::ios::binary);
    if (directory || !file)
        throw std::runtime_error("cu2cpp: cannot read '" + path.string() + "': "
                                 + std::strerror(directory ? EISDIR : errno));
    return {std::istreambuf_iterator<char>(file), {}};
}

// The path as a string for `#line`.
string line_name(const string& path)
{
    string name = "\"";
    for (char c : path)
        name += c == '\n' ? "\\n" : c == '"' || c == '\\' ? string{'\\', c} : string{c};
    return name + '"';
}

class Program {
public:
    explicit Program(const string& path)
    {
        add(path);
        for (size_t i = 0; i < sources.size(); ++i) {
            Reader(sources[i]).read();
            for (Include& include : sources[i].includes) {
                const auto folder = std::filesystem::path(sources[i].path).parent_path();
                const auto file = folder / include.name;
                if (std::filesystem::is_regular_file(file))
                    include.file = add(file);
            }
        }
        rewrite();
    }

    string text()
    {
        const string program = text_of(0);   // which tells what was put in
        const bool marked = starts_with(sources[0].text, byte_order_mark);
        return string(marked ? byte_order_mark : "") + prelude + files + program;
    }

private:
    std::deque<Source> sources;   // the program, and then what it includes, each file once
    std::map<std::filesystem::path, size_t> number;
    vector<vector<Edit>> edits;
    vector<size_t> around;        // the files that are being put into one another
    string files;                 // a line for each that was put in; cpu_device/run reads them

    size_t add(const std::filesystem::path& path)
    {
        const auto [place, is_new] =
            number.try_emplace(std::filesystem::weakly_canonical(path), sources.size());
        if (is_new)
            sources.emplace_back(path.string(), read_file(path));
        return place->second;
    }
    void rewrite();
    string text_of(size_t file);
    string in_place_of(const Source& source, const Include& include);
};

void Program::rewrite()
{
    Kernels kernels;
    for (const Source& source : sources)
        for (size_t i = 0; i < source.code.tokens.size(); ++i)
            if (source.code[i].is("__global__"))
                declare_kernel(source.code, i, kernels);
    // Such a kernel's name alone, `LAUNCH(kernel, n)`, may be on its way to a launch in a macro.
    bool call_parameters = false;
    for (const Source& source : sources)
        for (size_t i = 0; i < source.code.tokens.size(); ++i)
            if (source.code[i + 1].is(",", ")"))
                if (const auto found = kernels.find(source.code[i].text); found != kernels.end())
                    call_parameters |= found->second.needs_call;

    for (Source& source : sources) {
        edits.push_back(Rewriter(source, kernels, call_parameters).edits());
        source.changes = !edits.back().empty();
    }
    for (bool again = true; again;) {
        again = false;
        for (Source& source : sources)
            for (const Include& include : source.includes)
                if (include.file != none && sources[include.file].changes && !source.changes)
                    again = source.changes = true;
    }
}

string Program::text_of(size_t file)
{
    const Source& source = sources[file];
    vector<Edit> all = edits[file];
    for (const Include& include : source.includes)
        if (include.file != none && (file > 0 || sources[include.file].changes))
            all.push_back({include.position, include.length, in_place_of(source, include)});
    if (file > 0)
        all.insert(all.end(), source.once.begin(), source.once.end());
    std::sort(all.begin(), all.end(), [](const Edit& a, const Edit& b) {
        return std::pair(a.position, a.length) < std::pair(b.position, b.length);
    });

    const string& text = source.text;
    size_t done = starts_with(text, byte_order_mark) ? byte_order_mark.size() : 0;
    string output = "#line 1 " + line_name(source.path) + "\n";
    for (const Edit& edit : all) {
        output.append(text, done, edit.position - done).append(edit.text);
        done = edit.position + edit.length;
    }
    return output.append(text, done, string::npos);
}

// The directive, or the file itself. In a file that has been put somewhere else the directive has
// the whole path.
string Program::in_place_of(const Source& source, const Include& include)
{
    const Source& file = sources[include.file];
    const bool once = !file.once.empty();
    const bool is_around = std::find(around.begin(), around.end(), include.file) != around.end();
    if (is_around && once)
        return "";
    if (is_around || !file.changes)
        return "#include " + line_name(std::filesystem::absolute(file.path).string());
    if (files.find("\n// from " + file.path + "\n") == string::npos)
        files += (files.empty() ? "\n// from " : "// from ") + file.path + "\n";
    around.push_back(include.file);
    const string guard = "CPU_DEVICE_ONCE_" + std::to_string(include.file) + "\n";
    const string text = (once ? "#ifndef " + guard + "#define " + guard : "")
                        + text_of(include.file) + (once ? "\n#endif" : "") + "\n#line "
                        + source.line_number(source.text.data() + include.position) + " "
                        + line_name(source.path) + "\n";
    around.pop_back();
    return text;
}

int main(int argc, char** argv)
{
    if (argc != 2) {
        std::cerr << "usage: cu2cpp INPUT.cu > OUTPUT.cpp\n";
        return EXIT_FAILURE;
    }
    try {
        std::cout << Program(argv[1]).text() << std::flush;
        if (!std::cout)
            throw std::runtime_error("cu2cpp: cannot write the output");
    } catch (const std::exception& error) {
        std::cerr << error.what() << '\n';
        return EXIT_FAILURE;
    }
}
