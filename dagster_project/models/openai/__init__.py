"""Models behind an endpoint that speaks OpenAI's protocol: Ollama, vLLM, llama.cpp, OpenAI and others."""
