# One image for a lab without Python: the demo, and the live page on port 8080. docs/install.md says how to run it.
FROM python:3.11-slim AS wheel
COPY . /source
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheel /source

FROM python:3.11-slim
COPY --from=wheel /wheel /wheel
RUN pip install --no-cache-dir "$(echo /wheel/*.whl)[fast,fit,plot,sim,view]" && useradd --create-home --uid 1000 lab && install -d -o lab /work
USER lab
WORKDIR /work
RUN axbridge warmup
EXPOSE 8080
ENTRYPOINT ["axbridge"]
CMD ["demo", "--force"]
