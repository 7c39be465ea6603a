"""Chat templates of our own that together use the constructs of published ones; for chat_jinja.py."""

CHATML = """{% for message in messages %}{% if loop.first and message['role'] != 'system' %}{{ '<|im_start|>system\\nYou help.<|im_end|>\\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}
"""

LLAMA_TOOLS = """{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not tools_in_user_message is defined %}
    {%- set tools_in_user_message = true %}
{%- endif %}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}

{#- The system message comes first. -#}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start|>system<|end|>\\n\\n" }}
{%- if tools is not none %}
    {{- "Environment: tools\\n" }}
{%- endif %}
{{- "Today: " + date_string + "\\n\\n" }}
{{- system_message }}
{{- "<|eot|>" }}
{%- if tools_in_user_message and not tools is none %}
    {%- if messages | length != 0 %}
        {%- set first_user_message = messages[0]['content']|trim %}
        {%- set messages = messages[1:] %}
    {%- else %}
        {{- raise_exception("Tools need a first user message!") }}
    {%- endif %}
    {{- '<|start|>user<|end|>\\n\\n' -}}
    {{- "Call one of these functions, as {\\"name\\": name, \\"parameters\\": {}}.\\n\\n" }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
    {{- first_user_message + "<|eot|>"}}
{%- endif %}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start|>' + message['role'] + '<|end|>\\n\\n'+ message['content'] | trim + '<|eot|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("One tool call at once!") }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '<|start|>assistant<|end|>\\n\\n' -}}
        {{- '{"name": "' + tool_call.name + '", ' }}
        {{- '"parameters": ' }}
        {{- tool_call.arguments | tojson }}
        {{- "}" }}
        {{- "<|eot|>" }}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|start|>ipython<|end|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start|>assistant<|end|>\\n\\n' }}
{%- endif %}
"""

QWEN_THINKING = """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    {{- "# Tools\\n\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools><|im_end|>\\n" }}
{%- else %}
    {%- if messages[0].role == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- else %}
            {%- if '</think>' in content %}
                {%- set reasoning_content = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
            {%- endif %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index %}
            {%- if loop.last or (not loop.last and reasoning_content) %}
                {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning_content.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
            {%- else %}
                {{- '<|im_start|>' + message.role + '\\n' + content }}
            {%- endif %}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {%- if (loop.first and content) or (not loop.first) %}
                    {{- '\\n' }}
                {%- endif %}
                {%- if tool_call.function %}
                    {%- set tool_call = tool_call.function %}
                {%- endif %}
                {{- '<tool_call>\\n{"name": "' }}
                {{- tool_call.name }}
                {{- '", "arguments": ' }}
                {%- if tool_call.arguments is string %}
                    {{- tool_call.arguments }}
                {%- else %}
                    {{- tool_call.arguments | tojson }}
                {%- endif %}
                {{- '}\\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' }}
        {{- content }}
        {{- '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}"""

MISTRAL_STRICT = """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}

{#- This block checks for alternating user/assistant messages, skipping tool calling messages #}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or message.role == "tool_results" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("After the optional system message, roles must alternate.") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}

{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[AVAILABLE_TOOLS] [" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}
                        {{- '"' + key + '": "' + val + '"' }}
                    {%- else %}
                        {{- '"' + key + '": ' + val|tojson }}
                    {%- endif %}
                    {%- if not loop.last %}
                        {{- ", " }}
                    {%- endif %}
                {%- endfor %}
                {{- "}}" }}
                {%- if not loop.last %}
                    {{- ", " }}
                {%- else %}
                    {{- "]" }}
                {%- endif %}
            {%- endfor %}
            {{- "[/AVAILABLE_TOOLS]" }}
            {%- endif %}
        {%- if loop.first and system_message is defined %}
            {{- "[INST] " + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}
        {{- "[TOOL_CALLS] [" }}
        {%- for tool_call in message.tool_calls %}
            {%- set out = tool_call.function|tojson %}
            {{- out[:-1] }}
            {%- if not tool_call.id is defined or tool_call.id|length != 9 %}
                {{- raise_exception("Tool call IDs should be alphanumeric strings with length 9!") }}
            {%- endif %}
            {{- ', "id": "' + tool_call.id + '"}' }}
            {%- if not loop.last %}
                {{- ", " }}
            {%- else %}
                {{- "]" + eos_token }}
            {%- endif %}
        {%- endfor %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token}}
    {%- elif message["role"] == "tool_results" or message["role"] == "tool" %}
        {%- if message.content is defined and message.content.content is defined %}
            {%- set content = message.content.content %}
        {%- else %}
            {%- set content = message.content %}
        {%- endif %}
        {{- '[TOOL_RESULTS] {"content": ' + content|string + ", " }}
        {{- '"call_id": "' + message.tool_call_id|default("none") + '"}[/TOOL_RESULTS]' }}
    {%- else %}
        {{- raise_exception("Only user and assistant roles are supported, with the exception of an initial optional system message!") }}
    {%- endif %}
{%- endfor %}
"""

GEMMA = """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set first_user_prefix = messages[0]['content'] + '

' -%}
    {%- else -%}
        {%- set first_user_prefix = messages[0]['content'][0]['text'] + '

' -%}
    {%- endif -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("Conversation roles must alternate user/assistant/user/assistant/...") }}
    {%- endif -%}
    {%- if (message['role'] == 'assistant') -%}
        {%- set role = "model" -%}
    {%- else -%}
        {%- set role = message['role'] -%}
    {%- endif -%}
    {{ '<start_of_turn>' + role + '
' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}
                {{ '<start_of_image>' }}
            {%- elif item['type'] == 'text' -%}
                {{ item['text'] | trim }}
            {%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("Invalid content type") }}
    {%- endif -%}
    {{ '<end_of_turn>
' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model
'}}
{%- endif -%}
"""

PHI3 = """{% for message in messages %}{% if message['role'] == 'system' and message['content'] %}{{'<|system|>
' + message['content'] + '<|end|>
'}}{% elif message['role'] == 'user' %}{{'<|user|>
' + message['content'] + '<|end|>
'}}{% elif message['role'] == 'assistant' %}{{'<|assistant|>
' + message['content'] + '<|end|>
'}}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>
' }}{% else %}{{ eos_token }}{% endif %}"""

ZEPHYR = """{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>
' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>
' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>
'  + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}
"""

DEEPSEEK = """{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{% set ns = namespace(is_first=false, is_tool=false, is_output_first=true, system_prompt='') %}{%- for message in messages %}{%- if message['role'] == 'system' %}{% set ns.system_prompt = message['content'] %}{%- endif %}{%- endfor %}{{bos_token}}{{ns.system_prompt}}{%- for message in messages %}{%- if message['role'] == 'user' %}{%- set ns.is_tool = false -%}{{'<\uff5cUser\uff5c>' + message['content']}}{%- endif %}{%- if message['role'] == 'assistant' and message['content'] is none %}{%- set ns.is_tool = false -%}{%- for tool in message['tool_calls']%}{%- if not ns.is_first %}{{'<\uff5cAssistant\uff5c><\uff5ccalls\uff5c>' + tool['type'] + '<\uff5csep\uff5c>' + tool['function']['name'] + '\\n' + '```json' + '\\n' + (tool['function']['arguments'] | tojson) + '\\n' + '```'}}{%- set ns.is_first = true -%}{%- else %}{{'\\n' + tool['type']}}{%- endif %}{%- endfor %}{%- endif %}{%- if message['role'] == 'assistant' and message['content'] is not none %}{%- if ns.is_tool %}{{'<\uff5coutputs end\uff5c>' + message['content'] + '<\uff5cend\uff5c>'}}{%- set ns.is_tool = false -%}{%- else %}{% set content = message['content'] %}{% if '</think>' in content %}{% set content = content.split('</think>')[-1] %}{% endif %}{{'<\uff5cAssistant\uff5c>' + content + '<\uff5cend\uff5c>'}}{%- endif %}{%- endif %}{%- if message['role'] == 'tool' %}{%- set ns.is_tool = true -%}{%- if ns.is_output_first %}{{'<\uff5coutputs\uff5c>' + message['content']}}{%- set ns.is_output_first = false %}{%- else %}{{'\\n' + message['content']}}{%- endif %}{%- endif %}{%- endfor -%}{% if ns.is_tool %}{{'<\uff5coutputs end\uff5c>'}}{% endif %}{% if add_generation_prompt and not ns.is_tool %}{{'<\uff5cAssistant\uff5c>'}}{% endif %}"""

COMMAND = """{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% elif false == true %}{% set loop_messages = messages %}{% set system_message = 'You are Command.' %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% if system_message != false %}{{ '<|TURN|><|SYSTEM|>' + system_message + '<|END|>' }}{% endif %}
{%- macro json_type(schema) -%}
{%- if schema.type == "string" -%}str
{%- elif schema.type == "integer" -%}int
{%- elif schema.type == "object" -%}Dict[{{ json_type({'type': 'string'}) }}, Any]
{%- else -%}{{ schema.type | title }}
{%- endif -%}
{%- endmacro -%}
{%- macro describe(tool, prefix='# ', more=none) -%}
{{ prefix ~ tool.name }}({% for name, p in tool.parameters.properties|dictsort %}{{ name }}: {{ json_type(p) }}{% if name not in (tool.parameters.required or []) %} = None{% endif %}{{ ", " if not loop.last }}{% endfor %}){{ more if more }}
{%- endmacro -%}
{%- for tool in tools or [] %}{{ describe(tool.function, more=" -> " ~ loop.index ~ "/" ~ loop.length) }}
{% endfor -%}
{% for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) and not tools %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% set content = message['content'] %}{% if message['role'] == 'user' %}{{ '<|TURN|><|USER|>' + content.strip() + '<|END|>' }}{% elif message['role'] == 'assistant' %}{{ '<|TURN|><|BOT|>'  + (content or '').strip() + '<|END|>' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|TURN|><|BOT|>' }}{% endif %}"""

SMOLLM = """{# ---- defaults ---- #}
{% set reasoning_mode = "/think" if enable_thinking | default(true) else "/no_think" %}
{% if messages and messages[0].role == "system" %}
  {% set system = messages[0].content %}
  {% if "/no_think" in system %}
    {% set reasoning_mode = "/no_think" %}
  {% endif %}
  {% set custom = system.replace("/no_think", "").replace("/think", "").rstrip() %}
{% endif %}
{{- "<|im_start|>system\\n" -}}
{{- "## Metadata\\n\\n" -}}
{{- "Knowledge: June 2025\\n" -}}
{% set today = strftime_now("%d %B %Y") %}
{{- "Today: " ~ today ~ "\\n" -}}
{{- "Mode: " + reasoning_mode + "\\n\\n" -}}
{% if custom %}{{ custom ~ "\\n\\n" }}{% endif %}
{% if tools %}
  {% set block = namespace(text="<tools>\\n") %}
  {% for tool in tools %}
    {% set block.text = block.text ~ (tool | string | length > 0) ~ (tool.function | tojson(sort_keys=true)) ~ "\\n" %}
  {% endfor %}
  {{ block.text + "</tools>" }}
{% endif %}
{{- "<|im_end|>\\n" -}}
{% for message in messages %}
  {% set content = message.content if message.content is string else "" %}
  {% if message.role == "user" %}
    {{ "<|im_start|>" + message.role + "\\n" + content + "<|im_end|>\\n" }}
  {% elif message.role == "assistant" %}
    {% generation %}
    {% if reasoning_mode == "/think" %}
      {{ "<|im_start|>assistant\\n" + content.lstrip("\\n") + "<|im_end|>\\n" }}
    {% else %}
      {{ "<|im_start|>assistant\\n" + "<think>\\n\\n</think>\\n" + content.lstrip("\\n") + "<|im_end|>\\n" }}
    {% endif %}
    {% endgeneration %}
  {% elif message.role == "tool" %}
    {{ "<|im_start|>" + "user\\n" + content + "<|im_end|>\\n" }}
  {% endif %}
{% endfor %}
{% if add_generation_prompt %}
  {{- "<|im_start|>assistant\\n" -}}
{% endif %}"""

GRANITE = """{%- if messages[0]['role'] == 'system' -%}
{%- set system_message = messages[0]['content'] -%}{%- set loop_messages = messages[1:] -%}
{%- else -%}
{%- set system_message %}
Knowledge Cutoff Date: April 2024.
Today's Date: {{ strftime_now('%B %-d, %Y') }}.
You are Granite{{ '.' if not tools }}
{%- endset -%}
{%- set loop_messages = messages -%}
{%- endif -%}
{{ '<|role|>system<|end_role|>' + system_message + '<|end|>
' }}
{%- if tools %}
{{- '<|role|>tools<|end_role|>' }}{{ tools | map(attribute='function') | map(attribute='name') | join(', ') | upper }}{{ tools|tojson(indent=2) }}{{ '<|end|>\\n' }}
{%- endif %}
{%- for message in loop_messages %}
    {%- if message['role'] not in ['user', 'assistant', 'tool', 'system'] %}{% continue %}{% endif %}
    {%- if loop.index > 6 %}{{ '...' }}{% break %}{% endif %}
    {%- if message['role'] == 'assistant' -%}
{{ '<|role|>assistant<|end_role|>' }}{%- generation -%}{{ message['content'] }}{{ '<|end|>' }}{%- endgeneration -%}{{ '
' }}
    {%- else -%}
    {{ '<|role|>' + message['role'] + '<|end_role|>' + message['content'] + '<|end|>
' }}
    {%- endif %}
    {%- if loop.last and add_generation_prompt %}
    {{- '<|role|>assistant<|end_role|>' }}
    {%- endif %}
{%- else %}{{ 'nobody' }}
{%- endfor %}"""

LLAMA2 = """{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' ' + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}"""

HARMONY = """{#- Channels, in the manner of gpt-oss. #}
{%- macro render_type(spec, required=false) -%}
    {%- if spec.type is defined and spec.type is string -%}
        {%- if spec.enum -%}{{ spec.enum | join(" | ") }}
        {%- elif spec.type == "array" and spec['items'] -%}{{ render_type(spec['items']) }}[]
        {%- else -%}{{ spec.type }}{%- endif -%}
    {%- else -%}any{%- endif -%}
    {%- if spec.default is defined %}, // default: {{ spec.default | tojson }}{% endif %}
{%- endmacro -%}
{%- set model_identity = model_identity | default("You are a model.", true) -%}
{{- "<|start|>system<|message|>" ~ model_identity ~ "\\nCurrent date: " ~ strftime_now("%Y-%m-%d") }}
{%- set rest = messages %}
{%- set developer = "" %}
{%- if messages and messages[0].role in ("system", "developer") %}
    {%- set developer = messages[0].content %}{% set rest = messages[1:] %}
{%- endif %}
{{- "<|end|>" }}
{%- if developer or tools %}
    {{- "<|start|>developer<|message|>" }}{{ developer | indent(2, true) if developer }}
    {%- for tool in tools or [] %}
        {%- set f = tool.function %}
        {{- "\\n// " ~ (f.description or "none" | capitalize) ~ "\\ntype " ~ f.name ~ " = (_: {" }}
        {%- for name, spec in f.parameters.properties.items() %}
            {{- "\\n" ~ name ~ ("?" if name not in (f.parameters.required | default([]))) ~ ": " ~ render_type(spec) ~ "," }}
        {%- endfor %}
        {{- "\\n}) => any;" }}
    {%- endfor %}
    {{- "<|end|>" }}
{%- endif %}
{%- set last = namespace(call=none, tool_names=[]) %}
{%- for message in rest -%}
    {%- if message.role == "assistant" -%}
        {%- if message.tool_calls %}
            {%- for call in message.tool_calls %}
                {%- set last.call = call.function.name %}{% set last.tool_names = last.tool_names + [call.function.name] %}
                {{- "<|start|>assistant to=functions." + call.function.name + "<|channel|>commentary json<|message|>" }}
                {{- call.function.arguments | tojson if call.function.arguments is mapping else call.function.arguments }}
                {{- "<|call|>" }}
            {%- endfor %}
        {%- else %}
            {%- if "thinking" in message and loop.last %}
                {{- "<|start|>assistant<|channel|>analysis<|message|>" ~ message.thinking ~ "<|end|>" }}
            {%- endif %}
            {{- "<|start|>assistant<|channel|>final<|message|>" ~ message.content ~ ("<|return|>" if loop.last and not add_generation_prompt else "<|end|>") }}
            {%- set last.call = none %}
        {%- endif %}
    {%- elif message.role == "tool" -%}
        {%- if last.call is none %}{{ raise_exception("Message has tool role, but there was no previous call!") }}{% endif %}
        {{- "<|start|>functions." + last.call + " to=assistant<|message|>" + message.content | tojson + "<|end|>" }}
    {%- elif message.role == "user" -%}
        {{- "<|start|>user<|message|>" ~ message.content ~ "<|end|>" }}
    {%- endif -%}
{%- endfor -%}
{%- if last.tool_names %}{{ "<|names|>" ~ last.tool_names | unique | sort | join(",") }}{% endif %}
{%- if add_generation_prompt -%}
<|start|>assistant
{%- endif -%}"""

# Tools taken from none, texts marked as safe and joined, end tokens by format().
FUNCTIONS = """{%- if not tools is defined %}{% set tools = none %}{% endif -%}
{%- set end = "<|end_{}|>".format("turn") -%}
{%- set noted = tools | selectattr("function.description", "string") | rejectattr("function.description", "equalto", "") | list -%}
{{- bos_token + "<|system|>" }}
{%- if tools %}
    {%- for t in tools %}
        {{- "\n- "|safe + t.function.name + ": "|safe + t.function.description + " "|safe + t.function.parameters | tojson }}
    {%- endfor %}
    {{- "\n{0} of {1} {{described}}".format(noted | length, tools | length) }}
{%- endif %}
{{- end }}
{%- for message in messages %}
    {{- "<|{role}|>".format(role=message.role) }}
    {%- if message.content is string %}
        {{- message.content | e if message.role == "tool" else message.content }}
    {%- else %}
        {%- for part in message.content | selectattr("type", "equalto", "text") %}{{ part.text | trim }}{% endfor %}
    {%- endif %}
    {{- end }}
{%- endfor %}
{%- if add_generation_prompt %}{{ "<|assistant|>" }}{% endif %}"""

TEMPLATES = {
    "chatml": CHATML, "llama": LLAMA_TOOLS, "qwen": QWEN_THINKING, "mistral": MISTRAL_STRICT, "gemma": GEMMA,
    "phi": PHI3, "zephyr": ZEPHYR, "deepseek": DEEPSEEK, "command": COMMAND, "smollm": SMOLLM, "granite": GRANITE,
    "llama2": LLAMA2, "harmony": HARMONY, "functions": FUNCTIONS,
}
