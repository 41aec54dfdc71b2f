# The app for a server of your own; docs/settings.md says how to run it.
#   docker build -t t2i-bias .                         without a GPU
#   docker build -t t2i-bias --build-arg TORCH=cuda .  with an NVIDIA GPU
FROM python:3.12-slim AS wheel
WORKDIR /source
COPY . .
RUN pip wheel --no-deps --wheel-dir /dist .

FROM python:3.12-slim
ARG TORCH=cpu
ARG EXTRAS=postgres
ENV PIP_NO_CACHE_DIR=1
WORKDIR /dist
# Before the program, so that a change of the program installs no library again. CUDA is in PyPI's own torch.
COPY requirements.txt requirements.lock ./
RUN if [ "$TORCH" = cpu ]; then \
      pip install torch torchvision -c requirements.lock --index-url https://download.pytorch.org/whl/cpu; \
    fi && pip install -r requirements.txt -c requirements.lock
COPY --from=wheel /dist/*.whl ./
RUN pip install "$(echo /dist/*.whl)[$EXTRAS]" -c requirements.lock

RUN useradd --uid 1000 --create-home explorer && install -d -o explorer -g explorer /data
USER explorer
WORKDIR /home/explorer
ENV BIAS_DATA_DIR=/data/explorer HF_HOME=/data/hub BIAS_HOST=0.0.0.0
VOLUME /data
EXPOSE 7860
HEALTHCHECK --start-period=2m CMD ["python", "-c", "import socket; socket.create_connection(('127.0.0.1', 7860), 5)"]
CMD ["t2i-bias"]
