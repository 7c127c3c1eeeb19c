# barymesh for the machines of a Ray cluster: Ray's own image, and the wheel. All machines need the same versions.
ARG RAY_IMAGE=rayproject/ray:2.60.0-py312-cpu
FROM ${RAY_IMAGE} AS build
USER root
RUN apt-get update && apt-get install --yes --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY pyproject.toml CMakeLists.txt README.md LICENSE ./
COPY cmake cmake
COPY src src
COPY studies studies
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM ${RAY_IMAGE}
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir "$(ls /wheels/*.whl)[ray,parquet]"
